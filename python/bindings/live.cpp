#include "live.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

namespace phidias::python {
namespace {

// A Python object that may be let go of by a thread without the interpreter's lock.
class Held {
 public:
  explicit Held(nb::object object) : object_(std::move(object)) {}
  ~Held() {
    const nb::gil_scoped_acquire acquire;
    object_.reset();
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  const nb::object& object() const { return object_; }

 private:
  nb::object object_;
};

// Calls visit(float& live, float& own) for every entry, own in row-major order.
template <typename Visit>
void walk(const View& view, float* own, const Visit& visit) {
  const size_t axes = view.shape.size();
  std::vector<size_t> index(axes, 0);
  const size_t inner = axes == 0 ? 1 : view.shape.back();
  const size_t inner_stride = axes == 0 ? 1 : view.strides.back();
  while (true) {
    float* live = view.data;
    for (size_t axis = 0; axis + 1 < axes; ++axis) live += index[axis] * view.strides[axis];
    for (size_t i = 0; i < inner; ++i) visit(live[i * inner_stride], *own++);
    size_t axis = axes < 2 ? 0 : axes - 1;
    while (axis > 0 && ++index[axis - 1] == view.shape[axis - 1]) index[--axis] = 0;
    if (axis == 0) return;
  }
}

void call(const nb::object& function, const View& view, const Where& where) {
  std::vector<size_t> shape{1};
  shape.insert(shape.end(), view.shape.begin(), view.shape.end());
  size_t count = 1;
  for (const size_t extent : shape) count *= extent;
  if (count == 0) return;
  auto own = std::make_shared<std::vector<float>>(count);
  walk(view, own->data(), [](float& live, float& mine) { mine = live; });
  using Owner = std::shared_ptr<std::vector<float>>;
  nb::capsule capsule(new Owner(own), [](void* pointer) noexcept {
    const std::unique_ptr<Owner> owned(static_cast<Owner*>(pointer));
  });
  const nb::ndarray<nb::numpy, float> array(own->data(), shape.size(), shape.data(), capsule);
  LiveWhere place{value_name(where.value, where.layer),
                  where.layer,
                  where.position,
                  where.rows,
                  where.epoch,
                  {where.tokens.begin(), where.tokens.end()}};
  const nb::object told = nb::cast(std::move(place));
  function(array, told);
  if (where.cancel != nullptr) *where.cancel |= nb::cast<const LiveWhere&>(told).cancel;
  walk(view, own->data(), [](float& live, float& mine) { live = mine; });
}

}  // namespace

EditCallback callback_of(const nb::callable& function, std::shared_ptr<Raised> raised,
                         std::shared_ptr<const Gate> gate) {
  auto held = std::make_shared<Held>(function);
  return [held = std::move(held), raised = std::move(raised), gate = std::move(gate)](
             const View& view, const Where& where) {
    if (raised->any()) return;
    if (gate != nullptr && gate->wanted != std::pair(where.value, where.layer)) return;
    const nb::gil_scoped_acquire acquire;
    try {
      call(held->object(), view, where);
    } catch (...) {
      raised->keep(std::current_exception());
      if (where.cancel != nullptr) *where.cancel = true;
    }
  };
}

}  // namespace phidias::python
