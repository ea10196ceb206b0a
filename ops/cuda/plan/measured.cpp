#include "cuda/plan/measured.h"

#include <sstream>

#include "cuda/plan/estimate.h"

namespace tiled {
namespace {

// The least number with three binary digits that is not below `rows`.
int64_t class_of_rows(int64_t rows) {
  if (rows <= 64) return rows;
  const int64_t step = int64_t{1} << (61 - __builtin_clzll(static_cast<uint64_t>(rows)));
  return (rows + step - 1) / step * step;
}

// r, c or s: rows, columns or neither without gaps; the alignment in bytes; and a b where all
// entries of a batch are one matrix.
template <typename Matrix>
std::string lying_of(const Matrix& x, int64_t batch) {
  std::string text = x.col_stride == 1 ? "r" : x.row_stride == 1 ? "c" : "s";
  text += std::to_string(x.alignment);
  if (batch > 1 && x.batch_stride == 0) text += "b";
  return text;
}

}  // namespace

std::string class_of(const Problem& p) {
  std::ostringstream text;
  text << name_of(p.dtype) << '/' << name_of(p.epilogue.out_dtype) << '/'
       << static_cast<int>(p.arithmetic) << ',' << p.batch << 'x' << class_of_rows(p.m) << 'x'
       << p.n << 'x' << p.k << ',' << lying_of(p.a, p.batch) << lying_of(p.b, p.batch)
       << lying_of(p.c, p.batch) << ',' << finishing_of(p.epilogue);
  if (p.leaf > 0) text << ",l" << p.leaf;
  if (is_grouped(p)) text << ",g" << static_cast<int>(p.groups.shared);
  if (is_scaled(p))
    text << ",s" << static_cast<int>(p.scales.a.scaling) << static_cast<int>(p.scales.b.scaling)
         << name_of(p.scales.b_dtype);
  return text.str();
}

std::string text_of(const MeasuredWay& way) {
  std::ostringstream text;
  text.precision(4);
  text << way.seconds << ' ' << way.estimated_seconds << ' ' << way.date << ' ' << name_of(way.algo)
       << ' ' << way.name.swap_ab << ' ' << way.name.cluster_p << ' ' << way.name.cluster_q << ' '
       << way.name.split_k;
  if (!way.name.tile.empty()) text << ' ' << way.name.tile;
  return text.str();
}

std::optional<MeasuredWay> read_way(std::string_view text) {
  std::istringstream words{std::string(text)};
  MeasuredWay way{};
  std::string algo;
  words >> way.seconds >> way.estimated_seconds >> way.date >> algo >> way.name.swap_ab >>
      way.name.cluster_p >> way.name.cluster_q >> way.name.split_k;
  const bool is_read = !words.fail() && way.seconds > 0 && way.estimated_seconds > 0;
  std::getline(words >> std::ws, way.name.tile);
  const std::optional<Algo> known = parse_algo(algo);
  if (!is_read || !known) return std::nullopt;
  way.algo = *known;
  return way;
}

std::optional<Plan> plan_of_way(const Problem& problem, const DeviceInfo& device, Algo algo,
                                const NamedWay& name) {
  if (!supports(algo, problem, device)) return std::nullopt;
  const Rung* const rung = rung_of(algo);
  std::optional<Plan> found;
  rung->ways(problem, device, [&](const Way& way) {
    if (!found && rung->name(problem, way) == name) found = rung->plan(problem, device, way);
  });
  return found;
}

}  // namespace tiled
