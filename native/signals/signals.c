/* Signals, for a thread that is not the main one. Node hands signals to JavaScript on the main thread's loop, so one that is busy
 * never hears of them. This counts them where they arrive, passes them on to Node, and can end the process from any thread. */
#include <node_api.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#ifndef NSIG
#define NSIG 65
#endif

static atomic_int number_of_last;
static atomic_int count;
static struct sigaction handlers_of_node[NSIG];

static void note_signal(int number, siginfo_t* info, void* context) {
  atomic_store(&number_of_last, number);
  atomic_fetch_add(&count, 1);
  const struct sigaction* next = &handlers_of_node[number];
  if (next->sa_flags & SA_SIGINFO) {
    next->sa_sigaction(number, info, context);
  } else {
    next->sa_handler(number);
  }
}

/* A signal that nobody listens for keeps what it does, which is to end the process. */
static void watch_signal(int number) {
  struct sigaction current;
  if (sigaction(number, NULL, &current) != 0) return;
  if (current.sa_flags & SA_SIGINFO ? current.sa_sigaction == note_signal
                                    : current.sa_handler == SIG_DFL || current.sa_handler == SIG_IGN) {
    return;
  }
  handlers_of_node[number] = current;
  current.sa_flags |= SA_SIGINFO;
  current.sa_sigaction = note_signal;
  sigaction(number, &current, NULL);
}

/* watch(): counts SIGINT, SIGTERM and SIGHUP from now on, for as long as Node listens for them. */
static napi_value watch(napi_env env, napi_callback_info info) {
  (void)env;
  (void)info;
  watch_signal(SIGINT);
  watch_signal(SIGTERM);
  watch_signal(SIGHUP);
  return NULL;
}

/* last(): the number of the last signal, 0 for none. */
static napi_value last(napi_env env, napi_callback_info info) {
  (void)info;
  napi_value result = NULL;
  napi_create_int32(env, atomic_load(&number_of_last), &result);
  return result;
}

/* numSeen(): how many have come. */
static napi_value num_seen(napi_env env, napi_callback_info info) {
  (void)info;
  napi_value result = NULL;
  napi_create_int32(env, atomic_load(&count), &result);
  return result;
}

/* exit(code): ends the process at once, without asking any thread. */
static napi_value exit_now(napi_env env, napi_callback_info info) {
  napi_value argument;
  size_t number_of_arguments = 1;
  int code = 1;
  if (napi_get_cb_info(env, info, &number_of_arguments, &argument, NULL, NULL) == napi_ok && number_of_arguments == 1) {
    napi_get_value_int32(env, argument, &code);
  }
  _exit(code);
}

static void add(napi_env env, napi_value exports, const char* name, napi_callback callback) {
  napi_value function;
  napi_create_function(env, name, NAPI_AUTO_LENGTH, callback, NULL, &function);
  napi_set_named_property(env, exports, name, function);
}

NAPI_MODULE_INIT() {
  add(env, exports, "watch", watch);
  add(env, exports, "last", last);
  add(env, exports, "numSeen", num_seen);
  add(env, exports, "exit", exit_now);
  return exports;
}
