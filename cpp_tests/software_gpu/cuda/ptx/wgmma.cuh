// Only the element type of wgmma is here; nothing multiplies by it here.
#pragma once

namespace tiled::ptx {

struct Tf32 {
  float value;
};

}  // namespace tiled::ptx
