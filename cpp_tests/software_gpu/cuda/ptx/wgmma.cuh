// Of wgmma the name of its operands' type alone.
#pragma once

namespace tiled::ptx {

struct Tf32;

}  // namespace tiled::ptx
