// Views of numpy arrays: dtype, shape and layout are checked, and nothing is ever copied.
#pragma once

#include <pybind11/numpy.h>

#include <atomic>
#include <string>

#include "host/parallel.h"
#include "tasks/kernels.h"

namespace mfrank {

namespace py = pybind11;

constexpr int64_t ANY_SIZE = -1;

template <class T>
inline py::array of_dtype(const py::object& object, const char* name, int n_dimensions) {
    using Element = std::remove_const_t<T>;
    if (!py::isinstance<py::array_t<Element>>(object)) {
        const std::string wanted = py::str(py::dtype::of<Element>());
        std::string got = py::str(py::type::of(object).attr("__name__"));
        if (py::isinstance<py::array>(object))
            got = py::str(py::reinterpret_borrow<py::array>(object).dtype());
        throw py::type_error(std::string(name) + " must be an array of " + wanted + ", got " + got);
    }
    auto array = py::reinterpret_borrow<py::array>(object);
    if (array.ndim() != n_dimensions)
        throw py::value_error(std::string(name) + " must have " + std::to_string(n_dimensions) +
                              " dimensions, got " + std::to_string(array.ndim()));
    return array;
}

inline void check_aligned(const py::array& array, const char* name) {
    if (!(array.flags() & py::detail::npy_api::NPY_ARRAY_ALIGNED_))
        throw py::value_error(std::string(name) + " must be aligned; pass " + name + ".copy()");
}

template <class T>
inline py::array checked(const py::object& object, const char* name, int n_dimensions) {
    py::array array = of_dtype<T>(object, name, n_dimensions);
    check_aligned(array, name);
    if (!(array.flags() & py::array::c_style))
        throw py::value_error(std::string(name) +
                              " must be C-contiguous; pass numpy.ascontiguousarray(" + name + ")");
    if (!std::is_const_v<T> && !array.writeable())
        throw py::value_error(std::string(name) + " must be writable");
    return array;
}

inline void check_size(const char* name, int64_t got, int64_t wanted, const char* axis) {
    if (wanted != ANY_SIZE && got != wanted)
        throw py::value_error(std::string(name) + " must have " + std::to_string(wanted) + " " +
                              axis + ", got " + std::to_string(got));
}

// A borrowed array, whose Python object outlives the call; read-only if T is const.
template <class T>
struct Vector {
    T* data;
    int64_t size;
    Vector(const py::object& object, const char* name, int64_t wanted = ANY_SIZE) {
        py::array array = checked<T>(object, name, 1);
        data = static_cast<T*>(const_cast<void*>(array.data()));
        size = array.shape(0);
        check_size(name, size, wanted, "elements");
    }
};

template <class T>
struct Matrix {
    T* data;
    int64_t rows, columns;
    Matrix(T* elements, int64_t n_rows, int64_t n_columns)
        : data(elements), rows(n_rows), columns(n_columns) {}
    Matrix(const py::object& object, const char* name, int64_t wanted_rows = ANY_SIZE,
           int64_t wanted_columns = ANY_SIZE) {
        py::array array = checked<T>(object, name, 2);
        data = static_cast<T*>(const_cast<void*>(array.data()));
        rows = array.shape(0), columns = array.shape(1);
        check_size(name, rows, wanted_rows, "rows");
        check_size(name, columns, wanted_columns, "columns");
    }
};

// A read-only (lists, rows, columns) array whose rows are contiguous.
template <class T>
struct Rows {
    const T* data;
    int64_t lists, rows, columns, list_step, row_step;  // strides in elements
    Rows(const py::object& object, const char* name) {
        const py::array array = of_dtype<T>(object, name, 3);
        data = static_cast<const T*>(array.data());
        lists = array.shape(0), rows = array.shape(1), columns = array.shape(2);
        const int64_t size = sizeof(T);
        list_step = array.strides(0) / size, row_step = array.strides(1) / size;
        const bool whole = array.strides(0) % size == 0 && array.strides(1) % size == 0;
        const bool dense = columns <= 1 || array.strides(2) == size;
        check_aligned(array, name);
        if (array.size() && !(whole && dense))
            throw py::value_error(std::string(name) +
                                  " must have contiguous rows; pass numpy.ascontiguousarray(" +
                                  name + ")");
    }
};

// Whether a column is out of range. Comparisons with a sign, because x86-64's least instruction set
// has no others of vectors: what was checked before a list of one query took longer than the search.
inline bool any_outside(const int32_t* begin, const int32_t* end, int64_t n_columns) {
    const auto last = static_cast<int32_t>(std::min<int64_t>(n_columns - 1, INT32_MAX));
    int32_t signs = 0, beyond = 0;
    for (; begin < end; ++begin) signs |= *begin, beyond |= *begin > last;
    return signs < 0 || beyond != 0;
}

// Checks that every column is in range, so that no kernel reads beyond an array.
template <class T>
void check_columns(const Csr<T>& rows, int n_threads) {
    constexpr int64_t BLOCK = 1 << 18;
    const int64_t begin = rows.indptr[0], end = rows.indptr[rows.n_rows];
    std::atomic<bool> outside{false};
    const auto check = [&](int64_t first) {
        const int64_t last = std::min(first + BLOCK, end);
        if (any_outside(rows.indices + first, rows.indices + last, rows.n_columns)) outside = true;
    };
    if (end - begin <= BLOCK) {  // sooner done than handed out
        check(begin);
    } else {
        share((end - begin + BLOCK - 1) / BLOCK, n_threads, [&](Blocks& blocks) {
            for (int64_t block; blocks.next(block);) check(begin + block * BLOCK);
        });
    }
    if (outside)
        throw py::index_error("indices must lie in [0, " + std::to_string(rows.n_columns) + ")");
}

// A checked view of CSR rows; `data` may be None.
template <class T>
Csr<T> csr_view(const py::object& indptr, const py::object& indices, const py::object& data,
                int64_t n_columns, int n_threads) {
    const Vector<const int64_t> offsets(indptr, "indptr");
    const Vector<const int32_t> columns(indices, "indices");
    Csr<T> rows{offsets.size - 1, n_columns, offsets.data, columns.data, nullptr};
    if (!data.is_none()) rows.data = Vector<const T>(data, "data", columns.size).data;
    bool ascending = offsets.size > 0 && offsets.data[0] >= 0;
    for (int64_t r = 0; ascending && r < rows.n_rows; ++r)
        ascending = offsets.data[r] <= offsets.data[r + 1];
    if (!ascending || offsets.data[rows.n_rows] > columns.size)
        throw py::value_error(
            "indptr must be non-decreasing and lie in 0..the number of indices");
    check_columns(rows, n_threads);
    return rows;
}

// True for float64 and false for float32 arrays; throws for anything else.
inline bool is_double(const py::object& factors, const char* name) {
    if (py::isinstance<py::array_t<double>>(factors)) return true;
    if (py::isinstance<py::array_t<float>>(factors)) return false;
    throw py::type_error(std::string(name) + " must be an array of float32 or float64");
}

}  // namespace mfrank
