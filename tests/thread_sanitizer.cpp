// What ThreadSanitizer shall not report, in every test program of its build.

// libzmq hands messages between its threads through queues of its own, without locks and not built
// for ThreadSanitizer, which therefore cannot see what orders them; libsodium decrypts on that
// side. RocksDB's own threads are not built for it either. None of them ever calls our code, so
// races of our own are still found.
extern "C" const char* __tsan_default_suppressions() {  // NOLINT(bugprone-reserved-identifier)
  return "called_from_lib:libzmq.so.5\nrace:libzmq.so.5\nrace:libsodium.so.23\n"
         "called_from_lib:librocksdb.so.7.8\nrace:librocksdb.so.7.8\n";
}
