// Files mapped into memory, and tensors over their bytes.
//
// The mapping is private and writable: writing to such a tensor changes this process's copy of the page and never the
// file. It lives until the last tensor over it is released.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "convert.h"
#include "napi_call.h"

namespace reroll {

namespace {

struct MappedFile : NativeObject {
  MappedFile(const std::string& path) : path(path) {
    // Without O_NONBLOCK opening a pipe waits for its writer.
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) throw Failure("FILE", "cannot open " + path + ": " + std::strerror(errno) + ".");
    struct stat status{};
    if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) {
      close(file);
      throw Failure("FILE", path + " is not a regular file.");
    }
    size = static_cast<size_t>(status.st_size);
    if (size > 0) {
      data = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, file, 0);
    }
    const int error = errno;
    close(file);
    if (data == MAP_FAILED) {
      data = nullptr;
      throw Failure("FILE", "cannot map " + path + ": " + std::strerror(error) + ".");
    }
  }
  ~MappedFile() override {
    if (data != nullptr) munmap(data, size);
  }
  const char* kind() const override { return "MappedFile"; }

  std::string path;
  size_t size = 0;
  void* data = nullptr;
};

napi_value mapFile(Arguments& args) {
  auto file = std::make_shared<MappedFile>(args.string(0, "path"));
  napi_value result;
  napi_create_object(args.state.env, &result);
  setProperty(args.state, result, "size", toJs(args.state, static_cast<double>(file->size)));
  setProperty(args.state, result, "handle", toJs(args.state, args.state.insertObject(std::move(file))));
  return result;
}

// tensorInFile(file, offset, dtype, shape): no copy where the bytes are aligned for the dtype.
napi_value tensorInFile(Arguments& args) {
  auto file = std::static_pointer_cast<MappedFile>(args.state.object(args.number(0, "file"), "MappedFile"));
  const int64_t offset = args.integer(1, "offset");
  const at::ScalarType type = parseScalarType(args.string(2, "dtype"));
  const std::vector<int64_t> sizes = args.integers(3, "shape");
  const int64_t elementSize = static_cast<int64_t>(c10::elementSize(type));
  const int64_t limit = static_cast<int64_t>(file->size);
  int64_t bytes = elementSize;
  bool fits = offset >= 0 && offset <= limit;
  for (const int64_t size : sizes) {
    fits = fits && size >= 0 && (size == 0 || bytes <= limit / size);
    if (fits) bytes *= size;
  }
  if (!fits || bytes > limit - offset) {
    throw Failure("FILE", "shape " + describeValue(args.state, args.value(3)) + " of " + scalarTypeName(type) +
                              " at byte " + std::to_string(offset) + " does not fit in " + file->path + ", which has " +
                              std::to_string(limit) + " bytes.");
  }
  const auto options = at::TensorOptions().dtype(type);
  char* start = static_cast<char*>(file->data) + offset;
  if (bytes == 0) return toJs(args.state, at::empty(sizes, options));
  if (reinterpret_cast<uintptr_t>(start) % elementSize != 0) {
    at::Tensor copy = at::empty(sizes, options);
    std::memcpy(copy.data_ptr(), start, bytes);
    return toJs(args.state, copy);
  }
  return toJs(args.state, at::from_blob(start, sizes, [file](void*) {}, options));
}

}  // namespace

std::vector<Export> mappedFileExports() { return {{"mapFile", mapFile}, {"tensorInFile", tensorInFile}}; }

}  // namespace reroll
