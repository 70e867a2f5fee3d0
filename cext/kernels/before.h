// Headers that the kernels need: the standard library's and ours that are compiled once for every
// machine. Included inside a target pragma, they would be compiled for that one instruction set.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <numeric>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "host/buffer.h"
#include "host/group.h"
#include "host/isa.h"
#include "host/lists.h"
#include "host/parallel.h"
#include "host/random.h"
#include "tasks/kernels.h"
