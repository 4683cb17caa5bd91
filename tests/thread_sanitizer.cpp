// What ThreadSanitizer shall not report, in every test program of its build.

// libzmq hands messages between its threads through queues of its own, without locks and not built
// for ThreadSanitizer, which therefore cannot see what orders them; libsodium decrypts on that
// side. Neither ever calls our code, so races of our own are still found.
extern "C" const char* __tsan_default_suppressions() {  // NOLINT(bugprone-reserved-identifier)
  return "called_from_lib:libzmq.so.5\nrace:libzmq.so.5\nrace:libsodium.so.23\n";
}
