#include "agent/netlink/mark_kernel.h"

#include <fmt/format.h>
#include <linux/netfilter/nfnetlink.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "common/core/check.h"

namespace heddle {
namespace {

constexpr const char* kNoMarks =
    "the kernel cannot mark flows; Linux 5.10 or later with CONFIG_NF_TABLES and "
    "CONFIG_NF_TABLES_INET can";

}  // namespace

Result<MarkKernel> MarkKernel::open(int request_buffer_bytes) {
  MarkKernel result;
  auto socket = NetlinkSocket::open(request_buffer_bytes, NETLINK_NETFILTER);
  if (socket)
    result.requests_ = std::move(*socket);
  else if (socket.error().code != Errc::unsupported)
    return tl::unexpected(socket.error());
  return result;
}

Result<void> MarkKernel::probe(const std::string& table) {
  if (!requests_)
    return fail(Errc::unsupported, kNoMarks);
  if (proven_)
    return {};
  const auto attempt = [&](MarkTrial trial) {
    Batch batch = requests_->batch();
    append_mark_trial(batch, trial, table + "-trial");
    return transact(batch);
  };
  const auto refusal = attempt(MarkTrial::takes_tables);
  if (!refusal)
    return tl::unexpected(refusal.error());
  if (*refusal && (*refusal)->error == EPERM)
    return fail(Errc::permission,
                "not allowed to mark flows; give the agent CAP_NET_ADMIN (the unit file does)");
  if (*refusal)
    return fail(Errc::unsupported,
                fmt::format("{} ({})", kNoMarks, std::strerror((*refusal)->error)));
  for (const MarkTrial trial : {MarkTrial::signs_tables, MarkTrial::signs_chains}) {
    const auto refused = attempt(trial);
    if (!refused)
      return tl::unexpected(refused.error());
    if (!*refused)
      return fail(Errc::unsupported,
                  fmt::format("{} (this one keeps no comments of tables and chains, by which the "
                              "agent knows its own)",
                              kNoMarks));
  }
  proven_ = true;
  return {};
}

Result<void> MarkKernel::subscribe(int event_buffer_bytes) {
  auto socket = NetlinkSocket::open(event_buffer_bytes, NETLINK_NETFILTER);
  if (!socket)
    return tl::unexpected(socket.error());
  if (auto joined = socket->join(NFNLGRP_NFTABLES); !joined)
    return joined;
  events_ = std::move(*socket);
  return {};
}

int MarkKernel::fd() const {
  HEDDLE_CHECK(events_.has_value());
  return events_->fd();
}

MarkKernel::News MarkKernel::ready(const std::string& table) {
  News news = News::none;
  if (!events_)
    return news;
  const std::uint32_t own_port = requests_ ? requests_->port() : 0;
  const auto visit = [&](const nlmsghdr& message) {
    if (message.nlmsg_pid != own_port && news == News::none &&
        (concerns_table(message, MarkFormat::present, table) ||
         concerns_table(message, MarkFormat::former, table)))
      news = News::changed;
  };
  for (bool lost_before = false;;) {
    const auto more = events_->receive_waiting(visit);
    if (more && !*more)
      return news;
    if (more) {
      lost_before = false;
      continue;
    }
    news = News::lost;
    // Twice in a row is a broken socket, not a full one; the loop comes back to it.
    if (std::exchange(lost_before, true))
      return news;
  }
}

Result<std::optional<KernelMarkTable>> MarkKernel::read(MarkFormat format, const std::string& table,
                                                        KernelState& state) {
  if (!requests_)
    return std::nullopt;
  SeenMarkTable& seen = seen_.of(format);
  MarkTableReading reading(format, table);
  int error = 0;
  Batch query = requests_->batch();
  append_mark_table_query(query, format, table);
  if (auto asked = requests_->exchange(query,
                                       [&](const nlmsghdr& message) {
                                         if (const auto refused = parse_answer(message))
                                           error = refused->error;
                                         reading.take(message);
                                       });
      !asked)
    return tl::unexpected(asked.error());
  if (error == EPERM) {
    state.marks_hidden = true;
    return seen.table;
  }
  if (!reading.there()) {
    seen = {};
    // A kernel without nf_tables answers EINVAL where the question is no batch.
    if (error == 0 || error == ENOENT || error == EOPNOTSUPP || error == EINVAL)
      return std::nullopt;
    return fail(Errc::kernel, fmt::format("netlink: the table of marks cannot be read: {}",
                                          std::strerror(error)));
  }
  for (const MarkDump what : {MarkDump::chains, MarkDump::rules, MarkDump::sets, MarkDump::ports,
                              MarkDump::flows, MarkDump::flows_v6}) {
    if (what >= MarkDump::ports && !reading.has(what))
      continue;
    Batch request = requests_->batch();
    append_mark_dump(request, format, what, table);
    const auto interrupted = requests_->dump(
        request, [&] { reading.forget(what); },
        [&](const nlmsghdr& message) { reading.take(message); });
    if (!interrupted && interrupted.error().code != Errc::not_found)
      return tl::unexpected(interrupted.error());
    // What was not found any more went away between two questions.
    state.inconsistent = state.inconsistent || !interrupted || *interrupted;
  }
  seen.parts = reading.parts();
  seen.table = std::move(reading).finish();
  return seen.table;
}

Result<std::optional<Answer>> MarkKernel::apply(const ChangeMarks& change,
                                                const std::string& table) {
  if (!requests_)
    return Answer{.error = EPROTONOSUPPORT, .message = kNoMarks};
  Batch batch = requests_->batch();
  append_marks(batch, change, table, seen_);
  return transact(batch);
}

Result<std::optional<Answer>> MarkKernel::transact(const Batch& batch) {
  std::optional<Answer> refusal;
  auto done = requests_->exchange(batch, [&](const nlmsghdr& message) {
    if (auto answer = parse_answer(message); answer && answer->error != 0 && !refusal)
      refusal = std::move(*answer);
  });
  if (!done)
    return tl::unexpected(done.error());
  return refusal;
}

}  // namespace heddle
