// A promise that is kept by a thread of its own.
//
// Not by Node's thread pool: a collective waits for its slowest peer, and four waiting ones would stop every file
// access and name lookup of the process.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "napi_call.h"

namespace reroll {

struct PromisedWork {
  const char* function;
  std::function<void()> run;                 // on its own thread; what it throws rejects the promise
  std::function<napi_value(State&)> result;  // on the JavaScript thread; null resolves with undefined
  std::exception_ptr error;

  napi_deferred deferred = nullptr;
  napi_threadsafe_function wake = nullptr;
  std::shared_ptr<PromisedWork>* cleanup = nullptr;
  std::mutex mutex;
  bool isAbandoned = false;  // the JavaScript thread has ended: nobody may be woken
};

namespace promise {

using WorkPointer = std::shared_ptr<PromisedWork>;

inline void settle(State& state, PromisedWork& work) {
  napi_env env = state.env;
  napi_value value = nullptr;
  napi_get_undefined(env, &value);
  try {
    if (work.error) std::rethrow_exception(work.error);
    if (work.result) value = work.result(state);
    napi_resolve_deferred(env, work.deferred, value);
  } catch (...) {
    throwToJs(state, work.function);
    napi_value error = nullptr;
    if (napi_get_and_clear_last_exception(env, &error) == napi_ok) napi_reject_deferred(env, work.deferred, error);
  }
}

// Runs when the environment ends, before its thread-safe functions are destroyed.
inline void abandon(void* data) {
  std::unique_ptr<WorkPointer> work(static_cast<WorkPointer*>(data));
  std::lock_guard<std::mutex> lock((*work)->mutex);
  (*work)->isAbandoned = true;
}

// On the JavaScript thread. Without an environment, the thread is ending and only the memory is to be freed.
inline void wakeUp(napi_env env, napi_value, void*, void* data) {
  std::unique_ptr<WorkPointer> owned(static_cast<WorkPointer*>(data));
  if (env == nullptr) return;
  PromisedWork& work = **owned;
  napi_remove_env_cleanup_hook(env, abandon, work.cleanup);
  delete work.cleanup;
  settle(State::of(env), work);
  napi_release_threadsafe_function(work.wake, napi_tsfn_release);
}

inline void runThread(const WorkPointer& work) {
  try {
    work->run();
  } catch (...) {
    work->error = std::current_exception();
  }
  work->run = nullptr;  // what it holds is free before the promise is kept
  std::lock_guard<std::mutex> lock(work->mutex);
  if (!work->isAbandoned) napi_call_threadsafe_function(work->wake, new WorkPointer(work), napi_tsfn_blocking);
}

}  // namespace promise

// Starts `run` and returns the promise of `result`. The event loop stays alive until the promise is settled; where the
// JavaScript thread ends before, the work ends unheard.
inline napi_value promiseOf(State& state, const char* function, std::function<void()> run,
                            std::function<napi_value(State&)> result = nullptr) {
  napi_env env = state.env;
  auto work = std::make_shared<PromisedWork>();
  work->function = function;
  work->run = std::move(run);
  work->result = std::move(result);
  napi_value promised = nullptr;
  check(env, napi_create_promise(env, &work->deferred, &promised), "create a promise");
  check(env,
        napi_create_threadsafe_function(env, nullptr, nullptr, toJs(state, std::string(function)), 0, 1, nullptr,
                                        nullptr, nullptr, promise::wakeUp, &work->wake),
        "create a thread-safe function");
  work->cleanup = new promise::WorkPointer(work);
  napi_add_env_cleanup_hook(env, promise::abandon, work->cleanup);
  try {
    std::thread(promise::runThread, work).detach();
  } catch (const std::system_error& error) {
    work->error = std::make_exception_ptr(Failure("THREAD", std::string("cannot start a thread: ") + error.what()));
    napi_call_threadsafe_function(work->wake, new promise::WorkPointer(work), napi_tsfn_blocking);
  }
  return promised;
}

}  // namespace reroll
