// SPDX-License-Identifier: Apache-2.0 OR MIT
// The circuit as C functions. build.rs includes this once for each number of harts, with the class
// that Verilator made as TOP and the number as HARTS.

#include "Alu.h"
#include "ports.h"

// Called by Verilator's runtime for $time, which the circuit does not have.
double sc_time_stamp() __attribute__((weak));
double sc_time_stamp() { return 0; }

namespace {

// The same as in circuit.rs.
struct HartIn {
    uint64_t operand, delta;
    uint16_t csr;
    uint8_t reset, req_valid, op, mode, withdraw, v, hip_clear;
};

struct In {
    uint64_t mem_rdata, now;
    uint8_t reset, mem_ack, mem_err;
    HartIn harts[8];
};

struct HartOut {
    uint64_t data;
    uint8_t rsp_valid, fault, retry, terms, latches, vstip, stip, notify, ipi, split, settled,
        posting;
};

struct Out {
    uint64_t mem_addr, mem_value;
    uint32_t job_target;
    uint8_t mem_req, mem_op, mem_hart, job_busy, job_end, job_hart, job_post;
    HartOut harts[8];
};

struct Circuit {
    VerilatedContext context;
    TOP top{&context};
    Alu alu{&context};
};

void *make(int seed) {
    auto *circuit = new Circuit;
    // Registers that are not reset begin with values that depend on the seed.
    circuit->context.randReset(2);
    circuit->context.randSeed(seed);
    return circuit;
}

void destroy(void *circuit) { delete static_cast<Circuit *>(circuit); }

// One cycle: the inputs, a rising edge, and the outputs that follow it.
void cycle(void *circuit, const In *in, Out *out) {
    TOP &top = static_cast<Circuit *>(circuit)->top;
    Alu &alu = static_cast<Circuit *>(circuit)->alu;
    top.reset = in->reset;
    top.mem_ack = in->mem_ack;
    top.mem_err = in->mem_err;
    top.mem_rdata = in->mem_rdata;
    top.now = in->now;
    for (unsigned h = 0; h < HARTS; ++h) {
        const HartIn &hart = in->harts[h];
        put(top.hart_reset, h, 1, hart.reset);
        put(top.req_valid, h, 1, hart.req_valid);
        if (hart.req_valid) {
            put(top.req_csr, 12 * h, 12, hart.csr);
            put(top.req_op, 3 * h, 3, hart.op);
            put(top.req_mode, 3 * h, 3, hart.mode);
            put(top.req_operand, 64 * h, 64, hart.operand);
        }
        put(top.withdraw, h, 1, hart.withdraw);
        put(top.v, h, 1, hart.v);
        put(top.hip_clear, 2 * h, 2, hart.hip_clear);
        put(top.delta, 64 * h, 64, hart.delta);
    }
    top.clk = 0;
    top.eval();
    if (in->mem_ack) {
        alu.op = top.mem_op;
        alu.old = in->mem_rdata;
        alu.mask = top.mem_mask;
        alu.wdata = top.mem_wdata;
        alu.eval();
        out->mem_value = alu.value;
    }
    top.clk = 1;
    top.eval();
    out->mem_req = top.mem_req;
    out->mem_op = top.mem_op;
    out->mem_hart = top.mem_hart;
    out->mem_addr = uint64_t(top.mem_addr) << 3;
    out->job_busy = top.job_busy;
    out->job_end = top.job_end;
    out->job_hart = top.job_hart;
    out->job_post = top.job_post;
    out->job_target = top.job_target;
    for (unsigned h = 0; h < HARTS; ++h) {
        HartOut &hart = out->harts[h];
        hart.rsp_valid = get(top.rsp_valid, h, 1);
        hart.fault = get(top.rsp_fault, 2 * h, 2);
        hart.retry = get(top.rsp_retry, h, 1);
        hart.data = hart.rsp_valid ? get(top.rsp_data, 64 * h, 64) : 0;
        hart.terms = get(top.vssip, h, 1) | get(top.vseip, h, 1) << 1;
        hart.latches = get(top.hip_vssip, h, 1) | get(top.hip_vseip, h, 1) << 1;
        hart.vstip = get(top.vstip, h, 1);
        hart.stip = get(top.stip, h, 1);
        hart.notify = get(top.notify, h, 1);
        hart.ipi = get(top.ipi, h, 1);
        hart.split = get(top.split, h, 1);
        hart.settled = get(top.settled, h, 1);
        hart.posting = get(top.posting, h, 1);
    }
}

}  // namespace

#define JOIN(a, b) a##b
#define NAME(a, b) JOIN(a, b)

// What circuit.rs finds the functions by.
struct Functions {
    void *(*make)(int);
    void (*destroy)(void *);
    void (*cycle)(void *, const In *, Out *);
};

extern "C" const Functions NAME(circuit_, HARTS) = {make, destroy, cycle};
