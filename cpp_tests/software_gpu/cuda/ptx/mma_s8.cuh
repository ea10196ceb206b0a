// mma.sync of bytes with a sign in software: mma.cuh's knows all types.
#pragma once

#include "cuda/ptx/mma.cuh"
