// Collectives between processes: stores to meet in, process groups, and the operations of a group.
//
// Every operation has two forms. allReduce(...) returns a promise and waits on a thread of its own; allReduceSync(...)
// blocks the calling thread. Both change the tensor they are given: until the operation has ended its values belong to
// the operation, which keeps the memory alive even where the handle is released.
#include "convert.h"
#include "distributed_group.h"
#include "distributed_promise.h"
#include "napi_call.h"

namespace reroll {

namespace {

// The same memory as a tensor without history: libtorch refuses to write into tensors that were made in inference mode
// or that require gradients. Holds the memory.
at::Tensor plainOf(const at::Tensor& tensor) {
  if (!tensor.device().is_cpu()) return tensor.detach();
  const auto options = at::TensorOptions().dtype(tensor.dtype());
  return at::from_blob(tensor.data_ptr(), tensor.sizes(), [tensor](void*) {}, options);
}

// The bytes of a CPU tensor. What only moves values need not know their type, and Gloo does not know every type.
at::Tensor bytesOf(const at::Tensor& tensor) {
  const int64_t size = static_cast<int64_t>(tensor.nbytes());
  return at::from_blob(tensor.data_ptr(), {size}, [tensor](void*) {}, at::TensorOptions().dtype(at::kByte));
}

// A tensor argument of a collective of this group.
at::Tensor transferred(const Group& group, const at::Tensor& tensor, const char* name) {
  const auto wrong = [&](const std::string& reason) {
    return Failure("INVALID_ARGUMENT",
                   std::string("argument '") + name + "' is " + describeTensor(tensor) + ": " + reason);
  };
  if (tensor.layout() != at::kStrided || !tensor.is_contiguous()) {
    throw wrong("its values do not lie one after another in memory. Pass contiguous(), and copy the result back.");
  }
  if (group.isGloo() && !tensor.device().is_cpu()) {
    throw wrong("gloo moves CPU tensors. Make the group with backend \"nccl\", or move the tensor to the CPU.");
  }
  if (!group.isGloo() && tensor.device() != at::Device(group.options.device)) {
    throw wrong("this nccl group moves tensors of " + group.options.device + ".");
  }
  return group.isGloo() ? tensor : plainOf(tensor);
}

at::Tensor tensorArgument(const Arguments& args, size_t i, const char* name, const Group& group) {
  return transferred(group, args.tensor(i, name), name);
}

int rankArgument(const Arguments& args, size_t i, const char* name, const Group& group, bool isPeer) {
  const int64_t rank = args.integer(i, name);
  if (rank < 0 || rank >= group.options.size || (isPeer && rank == group.options.rank)) {
    throw Failure("INVALID_ARGUMENT", std::string("argument '") + name + "' must be " +
                                          (isPeer ? "another rank" : "a rank") + " of the group, 0 to " +
                                          std::to_string(group.options.size - 1) + ", got " + std::to_string(rank) +
                                          " on " + group.place() + ".");
  }
  return static_cast<int>(rank);
}

void expectNumel(const at::Tensor& tensor, const char* name, int64_t numel, const std::string& why) {
  if (tensor.numel() == numel) return;
  throw Failure("SHAPE_MISMATCH", std::string("argument '") + name + "' is " + describeTensor(tensor) +
                                      " and must have " + std::to_string(numel) + " values: " + why + ".");
}

void expectType(const at::Tensor& tensor, const char* name, const at::Tensor& like) {
  if (tensor.scalar_type() == like.scalar_type()) return;
  throw Failure("DTYPE_MISMATCH", std::string("argument '") + name + "' is " + describeTensor(tensor) +
                                      " and must have the type of the input, " + scalarTypeName(like.scalar_type()) +
                                      ".");
}

// How values of several ranks become one.
struct Reduction {
  std::string name;
  c10d::ReduceOp::RedOpType operation;
  bool isMean = false;
};

Reduction reductionArgument(const Arguments& args, size_t i, const at::Tensor& tensor) {
  const std::string name = args.string(i, "reduction");
  const bool isFloating = at::isFloatingType(tensor.scalar_type());
  const bool isInteger = at::isIntegralType(tensor.scalar_type(), /*includeBool=*/false);
  if (!isFloating && !isInteger) {
    throw Failure("INVALID_ARGUMENT", "cannot reduce " + describeTensor(tensor) + ". Convert it to int32 or float32.");
  }
  if (name == "sum") return {name, c10d::ReduceOp::SUM};
  if (name == "mean" && isFloating) return {name, c10d::ReduceOp::SUM, true};
  if (name == "mean") {
    throw Failure("INVALID_ARGUMENT", "the mean of " + describeTensor(tensor) +
                                          " is not of its type. Take the sum, or convert it to float32.");
  }
  if (name == "max") return {name, c10d::ReduceOp::MAX};
  if (name == "min") return {name, c10d::ReduceOp::MIN};
  if (name == "product") return {name, c10d::ReduceOp::PRODUCT};
  throw Failure("INVALID_ARGUMENT",
                "argument 'reduction' must be sum, mean, max, min or product, got \"" + name + "\".");
}

std::string describeCall(const std::string& call, const at::Tensor& tensor) {
  return call + " of " + describeTensor(tensor);
}

std::shared_ptr<Group> groupArgument(const Arguments& args) {
  return std::static_pointer_cast<Group>(args.state.object(args.number(0, "group"), "ProcessGroup"));
}

// allReduce(group, tensor, reduction). Gloo adds 16-bit floats as float32, so that the sum is rounded once.
Collective allReduce(const Arguments& args, const std::shared_ptr<Group>& group) {
  const at::Tensor tensor = plainOf(tensorArgument(args, 1, "tensor", *group));
  const Reduction reduction = reductionArgument(args, 2, tensor);
  const bool isWidened = group->isGloo() && tensor.element_size() == 2;
  auto operand = std::make_shared<at::Tensor>(tensor);
  Collective collective;
  collective.description = describeCall("allReduce(" + reduction.name + ")", tensor);
  collective.launch = [=]() -> WorkReference {
    if (tensor.numel() == 0) return WorkReference();
    if (isWidened) *operand = tensor.to(at::isFloatingType(tensor.scalar_type()) ? at::kFloat : at::kInt);
    std::vector<at::Tensor> tensors{*operand};
    c10d::AllreduceOptions options;
    options.reduceOp = reduction.operation;
    return group->backend->allreduce(tensors, options);
  };
  collective.finish = [=] {
    if (reduction.isMean) operand->div_(group->options.size);
    if (isWidened) tensor.copy_(*operand);
  };
  return collective;
}

// reduceScatter(group, output, input, reduction): rank r gets the reduction of the r-th part of every input.
// Gloo has none in libtorch 1.13: each rank collects its part from all and reduces it itself, which moves as much.
Collective reduceScatter(const Arguments& args, const std::shared_ptr<Group>& group) {
  const at::Tensor output = plainOf(tensorArgument(args, 1, "output", *group));
  const at::Tensor input = plainOf(tensorArgument(args, 2, "input", *group));
  const Reduction reduction = reductionArgument(args, 3, input);
  const int64_t size = group->options.size;
  expectType(output, "output", input);
  expectNumel(input, "input", output.numel() * size, "one part of the output's size per rank");
  auto parts = std::make_shared<at::Tensor>();
  Collective collective;
  collective.description = describeCall("reduceScatter(" + reduction.name + ")", input);
  collective.launch = [=]() -> WorkReference {
    if (output.numel() == 0) return WorkReference();
    at::Tensor target = output;
    at::Tensor source = input;
    if (!group->isGloo()) {
      c10d::ReduceScatterOptions options;
      options.reduceOp = reduction.operation;
      return group->backend->_reduce_scatter_base(target, source, options);
    }
    *parts = at::empty({size, output.numel()}, input.options());
    target = bytesOf(*parts);
    source = bytesOf(input);
    std::vector<int64_t> equalParts;
    return group->backend->alltoall_base(target, source, equalParts, equalParts);
  };
  collective.finish = [=] {
    if (group->isGloo() && output.numel() > 0) {
      const at::Tensor reduced = reduction.name == "max"       ? parts->amax(0)
                                 : reduction.name == "min"     ? parts->amin(0)
                                 : reduction.name == "product" ? parts->prod(0, false, input.scalar_type())
                                                               : parts->sum(0, false, input.scalar_type());
      output.view({-1}).copy_(reduced);
    }
    if (reduction.isMean) output.div_(size);
  };
  return collective;
}

// allGather(group, outputs, input): outputs[r] becomes the input of rank r.
Collective allGather(const Arguments& args, const std::shared_ptr<Group>& group) {
  const at::Tensor input = tensorArgument(args, 2, "input", *group);
  std::vector<at::Tensor> outputs;
  for (const at::Tensor& output : args.tensors(1, "outputs")) {
    if (!output.defined()) throw Failure("INVALID_ARGUMENT", "argument 'outputs' holds null.");
    expectType(output, "outputs", input);
    expectNumel(output, "outputs", input.numel(), "it takes the input of one rank");
    const at::Tensor target = transferred(*group, output, "outputs");
    outputs.push_back(group->isGloo() ? bytesOf(target) : target);
  }
  if (outputs.size() != static_cast<size_t>(group->options.size)) {
    throw Failure("INVALID_ARGUMENT", "argument 'outputs' must have one tensor per rank, " +
                                          std::to_string(group->options.size) + ", got " +
                                          std::to_string(outputs.size()) + ".");
  }
  const at::Tensor source = group->isGloo() ? bytesOf(input) : input;
  Collective collective;
  collective.description = describeCall("allGather", input);
  collective.launch = [=]() -> WorkReference {
    if (source.numel() == 0) return WorkReference();
    std::vector<std::vector<at::Tensor>> targets{outputs};
    std::vector<at::Tensor> sources{source};
    return group->backend->allgather(targets, sources);
  };
  return collective;
}

// allGatherInto(group, output, input): the r-th part of output becomes the input of rank r.
Collective allGatherInto(const Arguments& args, const std::shared_ptr<Group>& group) {
  const at::Tensor output = tensorArgument(args, 1, "output", *group);
  const at::Tensor input = tensorArgument(args, 2, "input", *group);
  expectType(output, "output", input);
  expectNumel(output, "output", input.numel() * group->options.size, "it takes the inputs of all ranks");
  Collective collective;
  collective.description = describeCall("allGatherInto", input);
  collective.launch = [=]() -> WorkReference {
    at::Tensor target = output;
    at::Tensor source = input;
    if (source.numel() == 0) return WorkReference();
    if (!group->isGloo()) return group->backend->_allgather_base(target, source);
    std::vector<at::Tensor> sources{bytesOf(input)};
    std::vector<std::vector<at::Tensor>> targets{bytesOf(output).chunk(group->options.size)};
    return group->backend->allgather(targets, sources);
  };
  return collective;
}

// broadcast(group, tensor, root)
Collective broadcast(const Arguments& args, const std::shared_ptr<Group>& group) {
  const at::Tensor tensor = tensorArgument(args, 1, "tensor", *group);
  const int root = rankArgument(args, 2, "root", *group, /*isPeer=*/false);
  const at::Tensor moved = group->isGloo() ? bytesOf(tensor) : tensor;
  Collective collective;
  collective.description = describeCall("broadcast from rank " + std::to_string(root), tensor);
  collective.launch = [=]() -> WorkReference {
    if (moved.numel() == 0) return WorkReference();
    std::vector<at::Tensor> tensors{moved};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    return group->backend->broadcast(tensors, options);
  };
  return collective;
}

// barrier(group). On Gloo the comparison of the calls is the barrier.
Collective barrier(const Arguments&, const std::shared_ptr<Group>& group) {
  Collective collective;
  collective.description = "barrier";
  if (group->isGloo()) return collective;
  collective.launch = [=]() -> WorkReference {
    c10d::BarrierOptions options;
    options.device_ids = {at::Device(group->options.device).index()};
    return group->backend->barrier(options);
  };
  return collective;
}

// Gloo ends the process when a message is longer than the receiver expects. With the shape and type in the tag, such a
// message does not meet the receiver, and both sides run into the timeout.
int tagOf(const Arguments& args, size_t i, const at::Tensor& tensor) {
  const std::string text = std::to_string(args.integer(i, "tag")) + " " + describeTensor(tensor);
  return static_cast<int>(detail::hashOf(text) & 0x7fffffff);
}

// send(group, tensor, to, tag)
Collective send(const Arguments& args, const std::shared_ptr<Group>& group) {
  const at::Tensor tensor = tensorArgument(args, 1, "tensor", *group);
  const int to = rankArgument(args, 2, "to", *group, /*isPeer=*/true);
  const int tag = tagOf(args, 3, tensor);
  Collective collective;
  collective.isPointToPoint = true;
  collective.description = describeCall("send to rank " + std::to_string(to), tensor);
  collective.launch = [=]() -> WorkReference {
    std::vector<at::Tensor> tensors{group->isGloo() ? bytesOf(tensor) : tensor};
    return tensor.numel() == 0 ? WorkReference() : group->backend->send(tensors, to, tag);
  };
  return collective;
}

// receive(group, tensor, from, tag)
Collective receive(const Arguments& args, const std::shared_ptr<Group>& group) {
  const at::Tensor tensor = tensorArgument(args, 1, "tensor", *group);
  const int from = rankArgument(args, 2, "from", *group, /*isPeer=*/true);
  const int tag = tagOf(args, 3, tensor);
  Collective collective;
  collective.isPointToPoint = true;
  collective.description = describeCall("receive from rank " + std::to_string(from), tensor);
  collective.launch = [=]() -> WorkReference {
    std::vector<at::Tensor> tensors{group->isGloo() ? bytesOf(tensor) : tensor};
    return tensor.numel() == 0 ? WorkReference() : group->backend->recv(tensors, from, tag);
  };
  return collective;
}

using Operation = Collective (*)(const Arguments&, const std::shared_ptr<Group>&);

template <Operation operation>
napi_value asPromise(Arguments& args) {
  const auto group = groupArgument(args);
  auto flight = std::make_shared<Flight>(group, operation(args, group));
  return promiseOf(args.state, args.function, [flight = std::move(flight)] { flight->run(); });
}

template <Operation operation>
napi_value blocking(Arguments& args) {
  const auto group = groupArgument(args);
  Flight(group, operation(args, group)).run();
  return nullptr;
}

napi_value distributedBackends(Arguments& args) {
  const std::vector<std::string> names = backend::available();
  napi_value result;
  napi_create_array_with_length(args.state.env, names.size(), &result);
  for (size_t i = 0; i < names.size(); i++) {
    napi_set_element(args.state.env, result, i, toJs(args.state, names[i]));
  }
  return result;
}

// openTcpStore(host, port, isServer, timeoutMs): the promise of { handle, port }. Port 0 takes a free one.
napi_value openTcpStore(Arguments& args) {
  const std::string host = args.string(0, "host");
  const int64_t port = args.integer(1, "port");
  const bool isServer = args.boolean(2, "isServer");
  const std::chrono::milliseconds timeout(args.integer(3, "timeoutMs"));
  if (port < (isServer ? 0 : 1) || port > 65535) {
    throw Failure("INVALID_ARGUMENT",
                  "argument 'port' must be from 1 to 65535, or 0 on the server for any free port, got " +
                      std::to_string(port) + ".");
  }
  auto store = std::make_shared<StoreObject>();
  auto openedPort = std::make_shared<uint16_t>(static_cast<uint16_t>(port));
  const auto open = [=] {
    try {
      const auto opened = backend::openTcpStore(host, *openedPort, isServer, timeout);
      *openedPort = opened->getPort();
      store->store = opened;
      store->connect = [=] { return backend::openTcpStore(host, *openedPort, /*isServer=*/false, timeout); };
    } catch (const std::exception& error) {
      throw Failure("RENDEZVOUS_FAILED", (isServer ? "cannot serve a store at " : "cannot reach the store at ") + host +
                                             ":" + std::to_string(port) + ": " + detail::sentenceOf(error));
    }
  };
  return promiseOf(args.state, args.function, open, [=](State& state) {
    napi_value result;
    napi_create_object(state.env, &result);
    setProperty(state, result, "port", toJs(state, static_cast<double>(*openedPort)));
    setProperty(state, result, "handle", toJs(state, state.insertObject(store)));
    return result;
  });
}

// openFileStore(path, worldSize)
napi_value openFileStore(Arguments& args) {
  const int worldSize = static_cast<int>(args.integer(1, "worldSize"));
  auto store = std::make_shared<StoreObject>();
  store->store = c10::make_intrusive<c10d::FileStore>(args.string(0, "path"), worldSize);
  store->connect = [file = store->store] { return file; };
  return toJs(args.state, args.state.insertObject(std::move(store)));
}

// openLocalStore(): a store of this process alone, in its memory.
napi_value openLocalStore(Arguments& args) {
  auto store = std::make_shared<StoreObject>();
  store->store = c10::make_intrusive<c10d::HashStore>();
  store->connect = [memory = store->store] { return memory; };
  return toJs(args.state, args.state.insertObject(std::move(store)));
}

std::shared_ptr<StoreObject> storeArgument(const Arguments& args) {
  return std::static_pointer_cast<StoreObject>(args.state.object(args.number(0, "store"), "Store"));
}

// storeSet(store, key, bytes): a promise.
napi_value storeSet(Arguments& args) {
  const auto store = storeArgument(args);
  const std::string key = args.string(1, "key");
  const TypedArrayView view = args.typedArray(2, "bytes");
  const auto* bytes = static_cast<const uint8_t*>(view.data);
  const std::vector<uint8_t> value(bytes, bytes + view.byteLength);
  return promiseOf(args.state, args.function, [=] { store->connect()->set(key, value); });
}

// storeGet(store, key, timeoutMs): the promise of the bytes, as numbers. Waits until there are any.
napi_value storeGet(Arguments& args) {
  const auto store = storeArgument(args);
  const std::string key = args.string(1, "key");
  const std::chrono::milliseconds timeout(args.integer(2, "timeoutMs"));
  auto value = std::make_shared<std::vector<int64_t>>();
  const auto read = [=] {
    const StoreReference line = store->connect();
    try {
      line->wait({key}, timeout);
    } catch (const std::exception& error) {
      throw Failure("RENDEZVOUS_TIMEOUT", "nobody has put \"" + key + "\" into the store within " +
                                              std::to_string(timeout.count()) + " ms: " + detail::sentenceOf(error));
    }
    const std::vector<uint8_t> bytes = line->get(key);
    value->assign(bytes.begin(), bytes.end());
  };
  return promiseOf(args.state, args.function, read, [=](State& state) { return toJs(state, at::IntArrayRef(*value)); });
}

// joinGroup(store, backend, name, rank, worldSize, timeoutMs, host, networkInterface, device, prefix, isLazy): the
// promise of a handle.
napi_value joinGroup(Arguments& args) {
  const auto store = storeArgument(args);
  GroupOptions options;
  options.backend = args.string(1, "backend");
  options.name = args.string(2, "name");
  options.rank = static_cast<int>(args.integer(3, "rank"));
  options.size = static_cast<int>(args.integer(4, "worldSize"));
  options.timeout = std::chrono::milliseconds(args.integer(5, "timeoutMs"));
  options.host = args.string(6, "host");
  options.networkInterface = args.string(7, "networkInterface");
  options.device = args.string(8, "device");
  options.prefix = args.string(9, "prefix");
  options.isLazy = args.boolean(10, "isLazy");
  if (options.size < 1 || options.rank < 0 || options.rank >= options.size) {
    throw Failure("INVALID_ARGUMENT", "argument 'rank' must be from 0 to worldSize - 1, got rank " +
                                          std::to_string(options.rank) + " of " + std::to_string(options.size) + ".");
  }
  backend::prepare(options);
  auto group = std::make_shared<Group>(options);
  group->store = store;
  return promiseOf(
      args.state, args.function, [=] { connectGroup(*group); },
      [=](State& state) { return toJs(state, state.insertObject(group)); });
}

}  // namespace

std::vector<Export> distributedExports() {
  return {{"distributedBackends", distributedBackends},
          {"openTcpStore", openTcpStore},
          {"openFileStore", openFileStore},
          {"openLocalStore", openLocalStore},
          {"storeSet", storeSet},
          {"storeGet", storeGet},
          {"joinGroup", joinGroup},
          {"allReduce", asPromise<allReduce>},
          {"allReduceSync", blocking<allReduce>},
          {"reduceScatter", asPromise<reduceScatter>},
          {"reduceScatterSync", blocking<reduceScatter>},
          {"allGather", asPromise<allGather>},
          {"allGatherSync", blocking<allGather>},
          {"allGatherInto", asPromise<allGatherInto>},
          {"allGatherIntoSync", blocking<allGatherInto>},
          {"broadcast", asPromise<broadcast>},
          {"broadcastSync", blocking<broadcast>},
          {"barrier", asPromise<barrier>},
          {"barrierSync", blocking<barrier>},
          {"send", asPromise<send>},
          {"sendSync", blocking<send>},
          {"receive", asPromise<receive>},
          {"receiveSync", blocking<receive>}};
}

}  // namespace reroll
