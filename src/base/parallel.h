// How the cache runs loops on several threads without knowing whose threads they are.
//
// The device passes OpenMP (ggml's own team), tests pass std::thread so that TSan sees them. A loop
// must not depend on which worker runs an item.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

namespace kvasir {

/// A borrowed callable void(int64_t item, int32_t worker); valid while the callable lives.
class ItemFunction {
 public:
  template <typename F, typename = std::enable_if_t<!std::is_same_v<std::decay_t<F>, ItemFunction>>>
  ItemFunction(
      F&& f)  // NOLINT(google-explicit-constructor, bugprone-forwarding-reference-overload)
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(f)))),
        call_([](void* object, int64_t item, int32_t worker) {
          (*static_cast<std::remove_reference_t<F>*>(object))(item, worker);
        }) {}
  void operator()(int64_t item, int32_t worker) const { call_(object_, item, worker); }

 private:
  void* object_;
  void (*call_)(void*, int64_t, int32_t);
};

class ParallelFor {
 public:
  virtual ~ParallelFor() = default;
  /// Workers that run() may use at once, >= 1.
  virtual int32_t n_workers() const = 0;
  /// Calls f(item, worker) once for each item in [0, n_items), worker in [0, n_workers()); returns
  /// when all are done. Items may run in any order.
  virtual void run(int64_t n_items, ItemFunction f) = 0;
};

/// One worker: the calling thread.
class SerialFor final : public ParallelFor {
 public:
  int32_t n_workers() const override { return 1; }
  void run(int64_t n_items, ItemFunction f) override {
    for (int64_t i = 0; i < n_items; ++i) f(i, 0);
  }
};

}  // namespace kvasir
