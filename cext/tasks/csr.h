// A sparse matrix by rows, on borrowed arrays.
#pragma once

#include <cstdint>

namespace mfrank {

// Compressed sparse rows; if `data` is null, every stored value is 1.
template <class T>
struct Csr {
    int64_t n_rows, n_columns;
    const int64_t* indptr;
    const int32_t* indices;
    const T* data;
};

}  // namespace mfrank
