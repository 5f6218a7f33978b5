#include "api/convert_write.h"

#include <algorithm>
#include <new>

#include "api/calibration.h"
#include "base/mapped_file.h"
#include "base/memory.h"
#include "base/try.h"

namespace phidias {
namespace {

constexpr size_t kPieceBytes = 16U << 20;  // of converted rows at a time

// Row `row` in the order of interleaved rotation: which row of ours stands there.
size_t interleaved_row(size_t row, size_t head_dim) {
  const size_t within = row % head_dim;
  return row - within + within / 2 + (within % 2) * (head_dim / 2);
}

// Empty where nothing is known of the tensor. Columns that were silent in the text still count a
// little: in another text they may speak.
Result<std::vector<float>> weights_of_columns(const Importance* importance,
                                              const PlannedTensor& tensor) {
  constexpr double kLeast = 1e-3;  // of the average
  if (importance == nullptr || tensor.role == TensorRole::kOther) return std::vector<float>();
  const auto at = importance->mean_squares.find(tensor.name);
  if (at == importance->mean_squares.end()) return std::vector<float>();
  std::vector<float> weights = at->second;
  if (weights.size() != tensor.rows.cols) {
    return Error{Code::kInvalidArgument,
                 "has " + std::to_string(tensor.rows.cols) +
                     " columns, but the importance matrix is of a model with " +
                     std::to_string(weights.size()),
                 {{}, {}, tensor.name}};
  }
  double average = 0;
  for (const float weight : weights)
    average += static_cast<double>(weight) / static_cast<double>(weights.size());
  for (float& weight : weights) weight += static_cast<float>(kLeast * average);
  return weights;
}

bool as_it_lies(const PlannedTensor& tensor) {
  const auto& blocks = tensor.rows.blocks;
  const size_t tile_rows = format_row(tensor.format).tile_rows;
  return tensor.interleaved_head == 0 &&
         std::all_of(blocks.begin(), blocks.end(), [&](const RowBlock& block) {
           // A tile that is not full can stand only at the end.
           return block.format == tensor.format &&
                  (block.rows % tile_rows == 0 || &block == &blocks.back());
         });
}

// How the rows of one tensor are encoded.
struct Encoding {
  const PlannedTensor& tensor;
  const FormatRow& target;
  std::vector<float> column_weights;  // may be empty
  const ErrorFeedback* feedback;      // may be null
  size_t group;                       // rows that are encoded together

  size_t cols() const { return tensor.rows.cols; }
  size_t tile_bytes() const { return target.tile_bytes(cols()); }
  size_t piece_rows() const {
    const size_t tiles = kPieceBytes / std::max<size_t>(1, tile_bytes());
    return std::max<size_t>(1, tiles * target.tile_rows / group) * group;
  }
  size_t source_row(size_t row) const {
    return tensor.interleaved_head == 0 ? row : interleaved_row(row, tensor.interleaved_head);
  }
};

class PlanWriter {
 public:
  PlanWriter(ParallelFor& threads, const Importance* importance, Calibration* calibration,
             const std::function<bool(const ConversionProgress&)>& progress,
             const std::function<Status(std::span<const std::byte>)>& sink)
      : threads_(threads),
        importance_(importance),
        calibration_(calibration),
        progress_(progress),
        sink_(sink),
        workspaces_(threads.threads()) {}

  Status write(const ConversionPlan& plan) {
    for (const PlannedTensor& tensor : plan) state_.total += tensor.bytes();
    for (const PlannedTensor& tensor : plan) {
      state_.tensor = tensor.name;
      PHIDIAS_CHECK_OK(as_it_lies(tensor) ? copy(tensor) : convert(tensor));
      release(tensor);
    }
    return {};
  }

 private:
  bool goes_on() const { return !progress_ || progress_(state_); }

  Status give(std::span<const std::byte> bytes) {
    PHIDIAS_CHECK_OK(sink_(bytes));
    state_.done += bytes.size();
    if (!goes_on()) return Error{Code::kCancelled, "was interrupted", {}};
    return {};
  }

  Status copy(const PlannedTensor& tensor) {
    for (const RowBlock& block : tensor.rows.blocks) {
      for (size_t at = 0, size = block.bytes(tensor.rows.cols); at < size; at += kPieceBytes)
        PHIDIAS_CHECK_OK(give({block.data + at, std::min(kPieceBytes, size - at)}));
    }
    return {};
  }

  Result<Encoding> encoding_of(const PlannedTensor& tensor) {
    const FormatRow& target = format_row(tensor.format);
    PHIDIAS_TRY(std::vector<float> column_weights, weights_of_columns(importance_, tensor));
    const ErrorFeedback* feedback = nullptr;
    if (calibration_ != nullptr && target.block_values > 1) {
      const auto running = [this](size_t, size_t) { return goes_on(); };
      PHIDIAS_TRY(feedback, calibration_->feedback_for(tensor, target.block_values, running));
    }
    const size_t group = feedback == nullptr ? target.tile_rows : ErrorFeedback::kRows;
    return Encoding{tensor, target, std::move(column_weights), feedback, group};
  }

  Status reserve(const Encoding& encoding) {
    try {
      piece_.ensure(encoding.target.matrix_bytes(encoding.piece_rows(), encoding.cols()));
      decoded_.ensure(threads_.threads() * encoding.group * encoding.cols());
      for (auto& workspace : workspaces_) {
        if (encoding.feedback != nullptr)
          workspace.reserve(encoding.cols(), encoding.target.block_values);
      }
    } catch (const std::bad_alloc&) {
      return Error{
          Code::kOutOfMemory, "no memory for rows of this length", {{}, {}, encoding.tensor.name}};
    }
    return {};
  }

  Status convert(const PlannedTensor& tensor) {
    PHIDIAS_TRY(const Encoding encoding, encoding_of(tensor));
    PHIDIAS_CHECK_OK(reserve(encoding));
    const size_t rows = tensor.rows.rows;
    const size_t piece_rows = encoding.piece_rows();
    for (size_t first = 0; first < rows; first += piece_rows) {
      const size_t count = std::min(piece_rows, rows - first);
      threads_.run(count, encoding.group, [&](size_t begin, size_t end, size_t thread) {
        for (size_t row = begin; row < end; row += encoding.group) {
          std::byte* tiles =
              piece_.data() + row / encoding.target.tile_rows * encoding.tile_bytes();
          encode(encoding, first + row, std::min(encoding.group, end - row), tiles, thread);
        }
      });
      PHIDIAS_CHECK_OK(give({piece_.data(), encoding.target.matrix_bytes(count, encoding.cols())}));
    }
    return {};
  }

  // Rows [first, first + rows) of the tensor, one group or less, to whole tiles.
  void encode(const Encoding& encoding, size_t first, size_t rows, std::byte* tiles,
              size_t thread) {
    const size_t cols = encoding.cols();
    float* values = decoded_.data() + thread * encoding.group * cols;
    for (size_t i = 0; i < rows; ++i)
      decode_row(encoding.tensor.rows, encoding.source_row(first + i), values + i * cols);
    if (encoding.feedback != nullptr) {
      encoding.feedback->encode(values, rows, encoding.target, tiles, calibration_->algebra(),
                                workspaces_[thread], thread);
      return;
    }
    const auto& weights = encoding.column_weights;
    encoding.target.encode_tile(values, rows, weights.empty() ? nullptr : weights.data(), tiles,
                                cols);
  }

  // The mapped pages that were read. A vector's memory is no mapping's.
  static void release(const PlannedTensor& tensor) {
    if (tensor.role == TensorRole::kOther) return;
    for (const RowBlock& block : tensor.rows.blocks) {
      if (block.owner == nullptr) release_mapped(block.data, block.bytes(tensor.rows.cols));
    }
  }

  ParallelFor& threads_;
  const Importance* importance_;
  Calibration* calibration_;
  const std::function<bool(const ConversionProgress&)>& progress_;
  const std::function<Status(std::span<const std::byte>)>& sink_;
  ConversionProgress state_;
  AlignedBuffer<std::byte> piece_;
  AlignedBuffer<float> decoded_;
  std::vector<ErrorFeedback::Workspace> workspaces_;
};

}  // namespace

Status write_plan(const ConversionPlan& plan, ParallelFor& threads, const Importance* importance,
                  Calibration* calibration,
                  const std::function<bool(const ConversionProgress&)>& progress,
                  const std::function<Status(std::span<const std::byte>)>& sink) {
  return PlanWriter(threads, importance, calibration, progress, sink).write(plan);
}

}  // namespace phidias
