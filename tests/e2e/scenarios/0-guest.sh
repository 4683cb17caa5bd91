# The machine itself: what the other scenarios stand on is there.
check "systemd has come up" systemctl is-active multi-user.target
check "no unit has failed" sh -c 'systemctl list-units --failed --no-legend | tee /dev/stderr | grep -c . | grep -qx 0'
modprobe -a crc32_generic rdma_rxe veth sch_tbf psample act_sample
ip link add e1 type veth peer name f1
ip link set e1 up
ip link set f1 up
check "Soft-RoCE takes an interface" rdma link add rxe1 type rxe netdev e1
check "its device is there" sh -c 'ibv_devices | grep -q rxe1'
check "the kernel describes its types (BTF)" test -r /sys/kernel/btf/vmlinux
