#include "random.h"

#include <ATen/CPUGeneratorImpl.h>
#ifdef REROLL_CUDA
#include <ATen/cuda/CUDAGeneratorImpl.h>
#endif

#include "napi_call.h"

namespace reroll {

namespace {

struct GeneratorObject : NativeObject {
  explicit GeneratorObject(at::Generator generator) : generator(std::move(generator)) {}
  const char* kind() const override { return "Generator"; }
  at::Generator generator;
};

// Seeds the process-wide generators of every device.
napi_value manualSeed(Arguments& args) {
  at::manual_seed(static_cast<uint64_t>(args.integer(0, "seed")));
  return nullptr;
}

napi_value createGenerator(Arguments& args) {
  const c10::Device device(args.string(0, "device"));
  const uint64_t seed = static_cast<uint64_t>(args.integer(1, "seed"));
  at::Generator generator;
  if (device.is_cpu()) {
    generator = at::make_generator<at::CPUGeneratorImpl>(seed);
#ifdef REROLL_CUDA
  } else if (device.is_cuda()) {
    generator = at::cuda::detail::createCUDAGenerator(device.index());
    generator.set_current_seed(seed);
#endif
  } else {
    throw Failure("INVALID_ARGUMENT", "no generator for device " + device.str() + " in this build.");
  }
  return toJs(args.state, args.state.insertObject(std::make_shared<GeneratorObject>(std::move(generator))));
}

napi_value seedGenerator(Arguments& args) {
  at::Generator generator = generatorOf(args.state, args.number(0, "generator"));
  std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_current_seed(static_cast<uint64_t>(args.integer(1, "seed")));
  return nullptr;
}

// The whole state of a generator as a byte tensor: of a device's own generator, or of one that was created.
at::Generator chosen(Arguments& args) {
  double handle;
  if (napi_get_value_double(args.state.env, args.value(0), &handle) == napi_ok) return generatorOf(args.state, handle);
  return at::globalContext().defaultGenerator(c10::Device(args.string(0, "generator or device")));
}

napi_value generatorState(Arguments& args) {
  at::Generator generator = chosen(args);
  std::lock_guard<std::mutex> lock(generator.mutex());
  return toJs(args.state, generator.get_state());
}

napi_value setGeneratorState(Arguments& args) {
  at::Generator generator = chosen(args);
  std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_state(args.tensor(1, "state"));
  return nullptr;
}

}  // namespace

at::Generator generatorOf(State& state, double handle) {
  return static_cast<GeneratorObject&>(*state.object(handle, "Generator")).generator;
}

std::vector<Export> randomExports() {
  return {{"manualSeed", manualSeed},
          {"createGenerator", createGenerator},
          {"seedGenerator", seedGenerator},
          {"generatorState", generatorState},
          {"setGeneratorState", setGeneratorState}};
}

}  // namespace reroll
