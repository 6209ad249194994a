// SPDX-License-Identifier: Apache-2.0 OR MIT
// The IMSIC as C functions. build.rs includes this once for each circuit, with the class that
// Verilator made as TOP.

#include <cstdint>
#include <memory>

#include "verilated.h"

namespace {

// The same as in imsic.rs.
struct In {
    uint64_t operand;
    uint32_t data;
    uint8_t reset, msg_valid, msg_file, msg_be, req_valid, req_file, topei, select, op;
};

struct Out {
    uint64_t data, hgeip;
    uint8_t valid, fault, seip;
};

struct Circuit {
    VerilatedContext context;
    TOP top{&context};
};

void *make(int seed) {
    auto *circuit = new Circuit;
    circuit->context.randReset(2);
    circuit->context.randSeed(seed);
    return circuit;
}

void destroy(void *circuit) { delete static_cast<Circuit *>(circuit); }

// One cycle: the inputs, a rising edge, and the outputs that follow it.
void cycle(void *circuit, const In *in, Out *out) {
    TOP &top = static_cast<Circuit *>(circuit)->top;
    top.reset = in->reset;
    top.msg_valid = in->msg_valid;
    top.msg_file = in->msg_file;
    top.msg_be = in->msg_be;
    top.msg_data = in->data;
    top.req_valid = in->req_valid;
    top.req_file = in->req_file;
    top.req_topei = in->topei;
    top.req_select = in->select;
    top.req_op = in->op;
    top.req_operand = in->operand;
    top.clk = 0;
    top.eval();
    top.clk = 1;
    top.eval();
    out->data = top.rsp_data;
    out->hgeip = top.hgeip;
    out->valid = top.rsp_valid;
    out->fault = top.rsp_fault;
    out->seip = top.seip;
}

}  // namespace

// What imsic.rs finds the functions by.
struct Functions {
    void *(*make)(int);
    void (*destroy)(void *);
    void (*cycle)(void *, const In *, Out *);
};

extern "C" const Functions SYMBOL = {make, destroy, cycle};
