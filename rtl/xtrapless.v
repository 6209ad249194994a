// SPDX-License-Identifier: Apache-2.0 OR MIT
// The controller of Xtrapless for HARTS harts, with numbers 0 to HARTS-1 (DISC-2).
//
// Vectors have an element for each hart, hart 0 in the lowest bits. Per hart:
//
//   req_*, rsp_*  CSR port. A request stays as it is until rsp_valid, which lasts one cycle; the
//                 next one may begin in the cycle after it. Accesses that Smstateen forbids, or
//                 the rights of vsip, stimecmp and vstimecmp, do not come here. A write of vsip
//                 comes with csr=vsip, if it may concern SSIP (BIT-4); reads of vsip do not come.
//   withdraw      An interrupt that interrupts the hart's mode is pending, or a halt is requested:
//                 the access is answered soon, with rsp_retry if nothing of it has been done
//                 (EXT-11).
//   v, hip_clear  V; pulses that clear the latches of hip (BIT-6): bit 0 VSSIP, bit 1 VSEIP.
//   vssip, vseip  Terms of the file in vsip (BIT-2). hvip, hgeip and hideleg are the core's.
//   hip_vs*ip     Latches of hip. vstip: BIT-7. notify: interrupt 24. stip: as in Sstc.
//   ipi           A pulse sets sip.SSIP. split: htlcfg.EN.
//   settled       While 0, the hart must neither look at vsip nor return to V=1.
//   posting       While 1, a FENCE with device output in its predecessor set waits (ORD-13).
//
// Memory: mem_req and what belongs to it stay until mem_ack, which may come in the same cycle and
// has mem_rdata and mem_err with it. mem_hart is the hart on behalf of which (MEM-5). Operations:
// port.vh; xtrapless_alu.v has the atomic ones.

`include "generated/xtrapless.vh"
`include "port.vh"

module xtrapless #(
    parameter HARTS = 4,    // 1 to 64
    parameter H = 1,        // The harts have the hypervisor extension.
    parameter QUEUE = 12,   // log2 of the most entries of a queue
    parameter ADDRESS = 56  // Bits of a physical address
) (
    input  wire                  clk,
    input  wire                  reset,
    input  wire [HARTS-1:0]      hart_reset,

    input  wire [HARTS-1:0]      req_valid,
    input  wire [12*HARTS-1:0]   req_csr,
    input  wire [3*HARTS-1:0]    req_op,
    input  wire [3*HARTS-1:0]    req_mode,
    input  wire [64*HARTS-1:0]   req_operand,
    input  wire [HARTS-1:0]      withdraw,
    output wire [HARTS-1:0]      rsp_valid,
    output wire [64*HARTS-1:0]   rsp_data,
    output wire [2*HARTS-1:0]    rsp_fault,
    output wire [HARTS-1:0]      rsp_retry,

    input  wire [HARTS-1:0]      v,
    input  wire [2*HARTS-1:0]    hip_clear,
    input  wire [63:0]           now,
    input  wire [64*HARTS-1:0]   delta,
    output wire [HARTS-1:0]      vssip,
    output wire [HARTS-1:0]      vseip,
    output wire [HARTS-1:0]      hip_vssip,
    output wire [HARTS-1:0]      hip_vseip,
    output wire [HARTS-1:0]      vstip,
    output wire [HARTS-1:0]      stip,
    output wire [HARTS-1:0]      notify,
    output reg  [HARTS-1:0]      ipi,
    output wire [HARTS-1:0]      split,
    output wire [HARTS-1:0]      settled,
    output wire [HARTS-1:0]      posting,

    output wire                  mem_req,
    output wire [1:0]            mem_op,
    output wire [5:0]            mem_hart,
    output wire [ADDRESS-1:3]    mem_addr,
    output wire [63:0]           mem_mask,
    output wire [63:0]           mem_wdata,
    input  wire                  mem_ack,
    input  wire                  mem_err,
    input  wire [63:0]           mem_rdata,

    // For counters and traces: the engine has a job; it ends; whose it is; whether it is a post of
    // an sgenipi, and to which domain and vhart.
    output wire                  job_busy,
    output wire                  job_end,
    output wire [5:0]            job_hart,
    output wire                  job_post,
    output wire [31:0]           job_target
);
    localparam BITS = HARTS > 32 ? 6 : HARTS > 16 ? 5 : HARTS > 8 ? 4 : HARTS > 4 ? 3
                    : HARTS > 2 ? 2 : 1;

    wire [HARTS-1:0] want, want_sync, want_post, any;
    wire [4*HARTS-1:0] jobs;
    wire [3*HARTS-1:0] job_ops;
    wire [64*HARTS-1:0] job_operands;
    wire [16*HARTS-1:0] post_doms, post_targets, slot_doms, slot_vharts;
    wire [HARTS-1:0] slot_vs, tables_vs, queues_open, queues_full, queues_empty, queues_lost;
    wire [44*HARTS-1:0] tables_ppns;
    wire [5*HARTS-1:0] tables_sizes;
    wire [53*HARTS-1:0] queue_addresses;

    wire next_valid, next_post, hold_posts, take;
    wire [BITS-1:0] next_hart, hart, who;
    wire busy, answer, answer_data, answer_retry, answer_early, fail, write;
    wire [63:0] data;
    wire slot_write, slot_value, poke, queue_push, queue_pop, queue_overflow, queue_report;
    wire tables_hold, queue_hold, queue_head, send;
    wire [1:0] terms_change, terms_value;
    wire [31:0] slot_new;
    wire [47:0] send_operand;

    wire engine_req;
    wire [60:0] mem_base;
    wire [17:0] mem_word;
    // mem_word is late, so what it carries into only chooses between two sums.
    wire [18:0] low = {1'b0, mem_base[17:0]} + {1'b0, mem_word};
    wire [43:0] high = {1'b0, mem_base[60:18]};
    wire [43:0] next = high + 44'd1;
    wire [60:0] address = {low[18] ? next[42:0] : high[42:0], low[17:0]};
    // No memory lies beyond the physical addresses (MEM-6).
    localparam BEYOND = ADDRESS - 3 - 18;
    wire nowhere = low[18] ? |(next >> BEYOND) : |(high >> BEYOND);
    wire ack = engine_req && (nowhere || mem_ack);
    wire err = nowhere || mem_err;

    genvar h;
    generate
        for (h = 0; h < HARTS; h = h + 1) begin : harts
            wire mine = hart == h;
            wire used = who == h;
            xtrapless_hart #(.H(H), .QUEUE(QUEUE)) unit (
                .clk(clk), .reset(reset || hart_reset[h]),
                .req_valid(req_valid[h]), .req_csr(req_csr[12*h+:12]), .req_op(req_op[3*h+:3]),
                .req_mode(req_mode[3*h+:3]), .req_operand(req_operand[64*h+:64]),
                .withdraw(withdraw[h]), .rsp_valid(rsp_valid[h]), .rsp_data(rsp_data[64*h+:64]),
                .rsp_fault(rsp_fault[2*h+:2]), .rsp_retry(rsp_retry[h]),
                .v(v[h]), .now(now), .delta(delta[64*h+:64]), .hip_clear(hip_clear[2*h+:2]),
                .terms({vseip[h], vssip[h]}), .latches({hip_vseip[h], hip_vssip[h]}),
                .vstip(vstip[h]), .stip(stip[h]), .notify(notify[h]), .split(split[h]),
                .settled(settled[h]), .posting(posting[h]),
                .want(want[h]), .want_post(want_post[h]), .job(jobs[4*h+:4]),
                .job_op(job_ops[3*h+:3]), .job_operand(job_operands[64*h+:64]),
                .post_dom(post_doms[16*h+:16]), .post_target(post_targets[16*h+:16]),
                .hold_posts(hold_posts), .take(take && next_hart == h && !next_post),
                .take_post(take && next_hart == h && next_post),
                .slot_v(slot_vs[h]), .slot_dom(slot_doms[16*h+:16]),
                .slot_vhart(slot_vharts[16*h+:16]), .tables_v(tables_vs[h]),
                .tables_ppn(tables_ppns[44*h+:44]), .tables_size(tables_sizes[5*h+:5]),
                .any(any[h]), .queue_open(queues_open[h]), .queue_full(queues_full[h]),
                .queue_empty(queues_empty[h]), .queue_lost(queues_lost[h]),
                .queue_address(queue_addresses[53*h+:53]),
                .busy(busy), .answer(mine && answer), .answer_data(answer_data),
                .answer_retry(answer_retry), .answer_early(answer_early),
                .job_end(mine && job_end), .data(data), .slot_write(used && slot_write),
                .slot_value(slot_value), .slot_new_dom(slot_new[31:16]),
                .slot_new_vhart(slot_new[15:0]), .terms_change(terms_change & {2{used}}),
                .terms_value(terms_value), .poke(poke), .fail(mine && fail),
                .write(mine && write), .queue_push(used && queue_push),
                .queue_pop(used && queue_pop), .queue_overflow(used && queue_overflow),
                .queue_report(used && queue_report), .tables_hold(used && tables_hold),
                .queue_hold(used && queue_hold),
                .queue_head(queue_head));
            assign want_sync[h] = want[h] && jobs[4*h+:4] == `JOB_SYNC;
        end
    endgenerate

    xtrapless_arbiter #(.HARTS(HARTS), .BITS(BITS)) arbiter (
        .clk(clk), .reset(reset), .want(want), .want_sync(want_sync), .want_post(want_post),
        .take(take), .valid(next_valid), .hart(next_hart), .post(next_post),
        .hold_posts(hold_posts));

    xtrapless_engine #(.HARTS(HARTS), .BITS(BITS)) engine (
        .clk(clk), .reset(reset), .next_valid(next_valid), .next_hart(next_hart),
        .next_job(next_post ? `JOB_POST : jobs[4*next_hart+:4]),
        .next_op(job_ops[3*next_hart+:3]), .next_operand(job_operands[64*next_hart+:64]),
        .next_dom(post_doms[16*next_hart+:16]), .next_vhart(post_targets[16*next_hart+:16]),
        .take(take), .hart(hart), .who(who), .en(split[hart]), .any(any[hart]),
        .withdraw(withdraw[hart]), .slot_v(slot_vs[who]), .slot_dom(slot_doms[16*who+:16]),
        .slot_vhart(slot_vharts[16*who+:16]), .tables_v(tables_vs[who]),
        .tables_ppn(tables_ppns[44*who+:44]), .tables_size(tables_sizes[5*who+:5]),
        .queue_full(queues_full[who]), .queue_empty(queues_empty[who]),
        .queue_lost(queues_lost[who]), .queue_address(queue_addresses[53*who+:53]),
        .queues_open(queues_open), .busy(busy), .answer(answer), .answer_data(answer_data),
        .answer_retry(answer_retry), .answer_early(answer_early), .job_end(job_end), .data(data),
        .fail(fail), .write(write), .slot_write(slot_write), .slot_value(slot_value),
        .terms_change(terms_change), .terms_value(terms_value), .poke(poke),
        .queue_push(queue_push), .queue_pop(queue_pop), .queue_overflow(queue_overflow),
        .queue_report(queue_report), .tables_hold(tables_hold), .queue_hold(queue_hold),
        .queue_head(queue_head), .slot_new(slot_new), .send(send),
        .send_operand(send_operand), .mem_req(engine_req), .mem_op(mem_op), .mem_base(mem_base),
        .mem_word(mem_word), .mem_mask(mem_mask), .mem_wdata(mem_wdata),
        .mem_address(address), .mem_ack(ack), .mem_err(err), .mem_rdata(mem_rdata),
        .job_post(job_post), .job_target(job_target));

    assign mem_req = engine_req && !nowhere;
    assign mem_addr = address[ADDRESS-4:0];
    assign mem_hart = {{(6 - BITS){1'b0}}, hart};
    assign job_hart = mem_hart;
    assign job_busy = busy;

    // sgenipi of HS- and M-mode.
    integer i;
    always @(posedge clk) begin
        for (i = 0; i < HARTS; i = i + 1)
            ipi[i] <= !reset && send && i >= {16'b0, send_operand[`XTL_SGENIPI_BASE]}
                && i < {16'b0, send_operand[`XTL_SGENIPI_BASE]} + 32
                && send_operand[i - {16'b0, send_operand[`XTL_SGENIPI_BASE]}];
    end
endmodule
