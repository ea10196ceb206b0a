// The device function of each rung for a problem and its plan. All of them take one argument, the
// Problem by value; launch.cpp launches them and reads their attributes through these pointers.
#pragma once

#include "cuda/plan.h"
#include "problem.h"

namespace tiled {

const void* naive_kernel(const Problem& problem, const Plan& plan);
const void* shared_tile_kernel(const Problem& problem, const Plan& plan);
const void* register_tile_kernel(const Problem& problem, const Plan& plan);

}  // namespace tiled
