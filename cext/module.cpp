// mfrank._ext: the extension module. Its functions are stateless and borrow their arrays.
#include "bindings/lists.h"
#include "bindings/losses.h"
#include "bindings/rows.h"
#include "bindings/topk.h"
#include "bindings/walks.h"
#include "host/isa.h"

PYBIND11_MODULE(_ext, m) {
    using namespace mfrank;
    m.doc() = "Native kernels of mfrank.backends.cpu; see _ext.pyi.";

    m.def("isa", [] { return name_of(chosen_isa()); });
    bind_rows(m);
    bind_lists(m);
    bind_losses(m);
    bind_topk(m);
    bind_walk(m);
}
