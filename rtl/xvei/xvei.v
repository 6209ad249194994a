// SPDX-License-Identifier: Apache-2.0 OR MIT
// Xvei for HARTS harts, with numbers 0 to HARTS-1: doorbell pages, events, queues (chapter
// "Virtual events" of the specification of HA-IOV). User contexts (Xhcs) are not here: an event for
// one is posted, and nobody is told.
//
// Vectors have an element for each hart, hart 0 in the lowest bits. Per hart:
//
//   req_*, rsp_*  Port for CSRs and doorbell pages. A request stays as it is until rsp_valid, which
//                 lasts one cycle; the next one may begin in the cycle after it. A CSR: req_page is
//                 0; only those of Xvei come here, and none that Smstateen forbids. An access that
//                 a doorbell leaf permits, of 2^req_width bytes: req_page is 1, and req_op
//                 PORT_READ for a load, PORT_WRITE for a store of req_operand. rsp_fault: port.vh
//                 for CSRs, xvei.vh for pages.
//   withdraw      An interrupt that interrupts the hart's mode is pending, or a halt is requested:
//                 the access is answered soon, with rsp_retry if nothing of it has been done.
//   irq           Interrupt 25 (VEI-10).
//
// A store and a CSR access have been performed when they are answered, a post of theirs included: a
// FENCE waits for them as for any other.
//
// Memory: mem_req and what belongs to it stay until mem_ack, which may come in the same cycle and
// has mem_rdata and mem_err with it. mem_hart is the hart on behalf of which (VEI-4). Operations:
// port.vh; xvei_alu.v has the atomic ones.

`include "generated/haiov.vh"
`include "port.vh"
`include "xvei/xvei.vh"

module xvei #(
    parameter HARTS = 4,    // 1 to 64
    parameter QUEUE = 12,   // log2 of the most entries of a queue
    parameter ADDRESS = 56  // Bits of a physical address
) (
    input  wire                clk,
    input  wire                reset,
    input  wire [HARTS-1:0]    hart_reset,

    input  wire [HARTS-1:0]    req_valid,
    input  wire [HARTS-1:0]    req_page,
    input  wire [12*HARTS-1:0] req_csr,
    input  wire [3*HARTS-1:0]  req_op,
    input  wire [3*HARTS-1:0]  req_mode,
    input  wire [64*HARTS-1:0] req_operand,
    input  wire [44*HARTS-1:0] req_ppn,     // of the doorbell page
    input  wire [12*HARTS-1:0] req_offset,
    input  wire [2*HARTS-1:0]  req_width,
    input  wire [HARTS-1:0]    withdraw,
    output wire [HARTS-1:0]    rsp_valid,
    output wire [64*HARTS-1:0] rsp_data,
    output wire [2*HARTS-1:0]  rsp_fault,
    output wire [HARTS-1:0]    rsp_retry,
    output wire [HARTS-1:0]    irq,

    output wire                mem_req,
    output wire [1:0]          mem_op,
    output wire [5:0]          mem_hart,
    output wire [ADDRESS-1:3]  mem_addr,
    output wire [63:0]         mem_mask,
    output wire [63:0]         mem_wdata,
    input  wire                mem_ack,
    input  wire                mem_err,
    input  wire [63:0]         mem_rdata,

    // For counters and traces: the engine has a job; it ends; whose it is.
    output wire                job_busy,
    output wire                job_end,
    output wire [5:0]          job_hart
);
    localparam BITS = HARTS > 32 ? 6 : HARTS > 16 ? 5 : HARTS > 8 ? 4 : HARTS > 4 ? 3
                    : HARTS > 2 ? 2 : 1;

    wire [HARTS-1:0] want, tables_v, queues_open, queues_full, queues_empty, queues_lost;
    wire [3*HARTS-1:0] jobs;
    wire [44*HARTS-1:0] tables_ppn;
    wire [4*HARTS-1:0] tables_size;
    wire [53*HARTS-1:0] queue_addresses;

    wire next_valid, take, answer, retry, fail, write;
    wire [BITS-1:0] next_hart, hart, who;
    wire [63:0] data;
    wire [1:0] fault;
    wire queue_push, queue_pop, queue_overflow, queue_report, queue_hold, queue_head;

    genvar h;
    generate
        for (h = 0; h < HARTS; h = h + 1) begin : harts
            wire mine = hart == h;
            wire used = who == h;
            xvei_hart #(.QUEUE(QUEUE)) unit (
                .clk(clk), .reset(reset || hart_reset[h]), .req_valid(req_valid[h]),
                .req_page(req_page[h]), .req_csr(req_csr[12*h+:12]), .req_op(req_op[3*h+:3]),
                .req_mode(req_mode[3*h+:3]), .req_operand(req_operand[64*h+:64]),
                .withdraw(withdraw[h]), .rsp_valid(rsp_valid[h]), .rsp_data(rsp_data[64*h+:64]),
                .rsp_fault(rsp_fault[2*h+:2]), .rsp_retry(rsp_retry[h]), .irq(irq[h]),
                .want(want[h]), .job(jobs[3*h+:3]), .take(take && next_hart == h),
                .table_v(tables_v[h]), .table_ppn(tables_ppn[44*h+:44]),
                .table_size(tables_size[4*h+:4]), .queue_open(queues_open[h]),
                .queue_full(queues_full[h]), .queue_empty(queues_empty[h]),
                .queue_lost(queues_lost[h]), .queue_address(queue_addresses[53*h+:53]),
                .busy(job_busy), .answer(mine && answer), .data(data), .fault(fault),
                .retry(retry), .fail(mine && fail), .write(mine && write),
                .queue_push(used && queue_push), .queue_pop(used && queue_pop),
                .queue_overflow(used && queue_overflow), .queue_report(used && queue_report),
                .queue_hold(used && queue_hold), .queue_head(queue_head));
        end
    endgenerate

    // All harts in turn, so that each waits for at most one job of every other.
    reg [BITS-1:0] start;
    xtrapless_turn #(.WIDTH(HARTS), .BITS(BITS)) turn (
        .bits(want), .start(start), .some(next_valid), .index(next_hart));
    always @(posedge clk) begin
        if (reset)
            start <= {BITS{1'b0}};
        else if (take)
            start <= {{(32 - BITS){1'b0}}, next_hart} == HARTS - 1 ? {BITS{1'b0}}
                : next_hart + 1'b1;
    end

    wire engine_req;
    wire [52:0] address;
    // No memory lies beyond the physical addresses (MEM-6).
    wire nowhere = |(address >> (ADDRESS - 3));

    xvei_engine #(.HARTS(HARTS), .BITS(BITS)) engine (
        .clk(clk), .reset(reset), .next_valid(next_valid), .next_hart(next_hart),
        .next_job(jobs[3*next_hart+:3]), .next_load(req_op[3*next_hart+:3] == `PORT_READ),
        .next_operand(req_operand[64*next_hart+:64]), .next_ppn(req_ppn[44*next_hart+:44]),
        .next_offset(req_offset[12*next_hart+:12]), .next_width(req_width[2*next_hart+:2]),
        .take(take), .hart(hart), .who(who), .withdraw(withdraw[hart]), .table_v(tables_v[hart]),
        .table_ppn(tables_ppn[44*hart+:44]), .table_size(tables_size[4*hart+:4]),
        .queues_open(queues_open), .queue_full(queues_full[who]), .queue_empty(queues_empty[who]),
        .queue_lost(queues_lost[who]), .queue_address(queue_addresses[53*who+:53]),
        .busy(job_busy), .answer(answer), .data(data), .fault(fault), .retry(retry), .fail(fail),
        .write(write), .queue_push(queue_push), .queue_pop(queue_pop),
        .queue_overflow(queue_overflow), .queue_report(queue_report),
        .queue_hold(queue_hold), .queue_head(queue_head),
        .mem_req(engine_req), .mem_op(mem_op), .mem_addr(address), .mem_mask(mem_mask),
        .mem_wdata(mem_wdata), .mem_ack(engine_req && (nowhere || mem_ack)),
        .mem_err(nowhere || mem_err), .mem_rdata(mem_rdata));

    assign mem_req = engine_req && !nowhere;
    assign mem_addr = address[ADDRESS-4:0];
    assign mem_hart = {{(6 - BITS){1'b0}}, hart};
    assign job_hart = mem_hart;
    assign job_end = answer;
endmodule
