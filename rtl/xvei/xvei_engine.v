// SPDX-License-Identifier: Apache-2.0 OR MIT
// The engine that all harts share: accesses to doorbell pages, posts, claims.
//
// It carries out one job after the other, each as a whole, so that VEI-7, VEI-8 and VEI-11 are the
// order of its steps, and a write of 0 to hgenvei only has to take its turn (VEI-13). The search of a
// page only reads, and is given up when its hart asks for that.

`include "generated/haiov.vh"
`include "port.vh"
`include "xvei/xvei.vh"

module xvei_engine #(
    parameter HARTS = 4,
    parameter BITS = 2     // log2 of HARTS, rounded up, at least 1
) (
    input  wire             clk,
    input  wire             reset,

    // The job that is next, of hart `next_hart`.
    input  wire             next_valid,
    input  wire [BITS-1:0]  next_hart,
    input  wire [2:0]       next_job,
    input  wire             next_load,
    input  wire [63:0]      next_operand,
    input  wire [43:0]      next_ppn,
    input  wire [11:0]      next_offset,
    input  wire [1:0]       next_width,
    output wire             take,

    // Of the hart that causes the job, and of the one whose queue is used.
    output reg  [BITS-1:0]  hart,
    output reg  [BITS-1:0]  who,
    input  wire             withdraw,
    input  wire             table_v,
    input  wire [43:0]      table_ppn,
    input  wire [3:0]       table_size,
    input  wire [HARTS-1:0] queues_open,
    input  wire             queue_full,
    input  wire             queue_empty,
    input  wire             queue_lost,
    input  wire [52:0]      queue_address,

    // What happens to `hart`,
    output wire             busy,
    output wire             answer,
    output reg  [63:0]      data,
    output reg  [1:0]       fault,
    output reg              retry,
    output wire             fail,
    output wire             write,
    // and to the queue of `who`.
    output wire             queue_push,
    output wire             queue_pop,
    output wire             queue_overflow,
    output wire             queue_report,
    output wire             queue_hold,
    output wire             queue_head,

    output reg              mem_req,
    output reg  [1:0]       mem_op,
    output reg  [52:0]      mem_addr,
    output reg  [63:0]      mem_mask,
    output reg  [63:0]      mem_wdata,
    input  wire             mem_ack,
    input  wire             mem_err,
    input  wire [63:0]      mem_rdata
);
    `include "xvei/steps.vh"

    reg [3:0]  state;
    reg [2:0]  job;
    reg        load;
    reg [63:0] operand;
    reg [43:0] page;
    reg [11:0] offset;
    reg [1:0]  width;
    reg        shadow_v;
    reg [43:0] shadow;
    reg [7:0]  count;
    reg [7:0]  index;
    reg        clears, posts;   // CLEAR and POST of the doorbell that matches
    reg [9:0]  unit;
    reg [51:0] entry;           // Bits 55:4 of its address
    reg        exists;
    reg [31:0] id;

    // Bits of the access.
    wire [63:0] ones = {{32{width == 2'd3}}, {16{width[1]}}, {8{width != 2'd0}}, 8'hff};
    wire [63:0] stored = operand & ones;
    wire misaligned = |(offset[2:0] & ~(3'b111 << width));

    // Entry of a request in the table of `hart`, which is aligned to its size.
    wire [15:0] request = state == START ? operand[`HAIOV_SGENVEI_REQUEST]
                        : mem_rdata[`HAIOV_BELL_MATCH_REQUEST];
    wire request_exists = table_v && (request >> table_size) == 16'b0;
    wire [51:0] request_entry = {table_ppn, 8'b0} | {42'b0, request[9:0]};

    wire valid = !mem_err && mem_rdata[`HAIOV_BELL_HEADER_V];
    wire shadowed = !mem_err && mem_rdata[`HAIOV_BELL_SHADOW_V];

    // A word of the page as a doorbell (VEI-6).
    wire fits = mem_rdata[`HAIOV_BELL_MATCH_V] && mem_rdata[`HAIOV_BELL_MATCH_OFFSET] == offset
        && (mem_rdata[`HAIOV_BELL_MATCH_ANY] || mem_rdata[`HAIOV_BELL_MATCH_WIDTH] == width);
    wire [7:0] doorbells = mem_rdata[`HAIOV_BELL_HEADER_COUNT] > `HAIOV_MAX_DOORBELLS
        ? `HAIOV_MAX_DOORBELLS : mem_rdata[`HAIOV_BELL_HEADER_COUNT];

    // Bits of the units that a load touches, in a word of LOADS.
    wire [5:0] first_unit = offset[7:2];
    wire enabled = mem_rdata[first_unit] && (width != 2'd3 || mem_rdata[first_unit | 6'd1]);

    // An entry, as it was before it was marked.
    wire [15:0] to = mem_rdata[`HAIOV_EVENT_CTL_HART];
    wire told = mem_rdata[`HAIOV_EVENT_CTL_V] && !mem_rdata[`HAIOV_EVENT_CTL_P]
        && !mem_rdata[`HAIOV_EVENT_CTL_M]
        && mem_rdata[`HAIOV_EVENT_CTL_KIND] == `HAIOV_TARGET_HART && {16'b0, to} < HARTS
        && queues_open[to[BITS-1:0]];

    wire looks = state == HEADER || state == SHADOW || state == LOADS || state == READ
        || state == MATCH || state == VALUE || state == CHECK;

    assign busy = state != IDLE;
    assign take = state == IDLE && next_valid;
    assign answer = state == FINISH;
    assign fail = mem_req && mem_ack && mem_err;
    assign write = state == START && job == `XVEI_JOB_QUEUE;
    assign queue_push = state == PUSH && mem_req && mem_ack && !mem_err;
    // Its hart may have been reset since the mark.
    wire closed = !queues_open[who];
    wire no_place = closed || queue_full;
    assign queue_overflow = state == PUSH && !closed && (queue_full || (mem_ack && mem_err));  // NTF-5
    assign queue_pop = state == POP && mem_req && mem_ack;
    assign queue_report = state == POP && (queue_empty || mem_ack);
    assign queue_head = state == POP;
    assign queue_hold = (state == PUSH || state == POP) && mem_req && !mem_ack;

    always @* begin
        mem_req = 1'b1;
        mem_op = `MEM_LOAD;
        mem_addr = {page, 9'b0};
        mem_mask = 64'b0;
        mem_wdata = 64'b0;
        case (state)
            HEADER: mem_addr[8:0] = `HAIOV_BELL_HEADER / 8;
            SHADOW: mem_addr[8:0] = `HAIOV_BELL_SHADOW / 8;
            LOADS: mem_addr[8:0] = `HAIOV_BELL_LOADS / 8 + {5'b0, offset[11:8]};
            READ: mem_addr = {shadow, offset[11:3]};
            MATCH: mem_addr[8:0] = `HAIOV_BELL_MATCH / 8 + {index, 1'b0};
            VALUE: mem_addr[8:0] = `HAIOV_BELL_VALUE / 8 + {index, 1'b0};
            CHECK: mem_addr = {entry, 1'b0};
            CLEAR: begin  // VEI-7
                mem_op = `MEM_MERGE;
                mem_addr = {shadow, unit[9:1]};
                mem_mask = unit[0] ? {stored[31:0], 32'b0} : {32'b0, stored[31:0]};
            end
            MARK: begin  // VEI-8
                mem_op = `MEM_MARK;
                mem_addr = {entry, 1'b0};
                mem_mask[`HAIOV_EVENT_CTL_P] = 1'b1;
                mem_wdata[`HAIOV_EVENT_CTL_P] = 1'b1;
            end
            PUSH: begin
                mem_req = !no_place;
                mem_op = `MEM_STORE;
                mem_addr = queue_address;
                mem_wdata = {32'b0, id};
            end
            POP: begin
                mem_req = !queue_empty;
                mem_addr = queue_address;
            end
            default: mem_req = 1'b0;
        endcase
    end

    // The next doorbell, if there is one.
    task go_on;
        begin
            index <= index + 8'd1;
            state <= index + 8'd1 == count ? FINISH : MATCH;
        end
    endtask

    wire [63:0] moved = mem_rdata >> {offset[2:0], 3'b0};

    always @(posedge clk) begin
        if (reset) begin
            state <= IDLE;
        end else if (looks && mem_ack && withdraw) begin
            fault <= `FAULT_NONE;
            retry <= 1'b1;
            state <= FINISH;
        end else begin
            // From HEADER on, `fault` is how the page refuses the access, until that is answered.
            case (state)
                IDLE: if (next_valid) begin
                    state <= START;
                    hart <= next_hart;
                    who <= next_hart;
                    job <= next_job;
                    load <= next_load;
                    operand <= next_operand;
                    page <= next_ppn;
                    offset <= next_offset;
                    width <= next_width;
                    data <= 64'b0;
                    fault <= `FAULT_NONE;
                    retry <= 1'b0;
                end
                START: begin
                    index <= 8'd0;
                    entry <= job == `XVEI_JOB_ENTRY ? operand[`HAIOV_HGENVEI_ENTRY] : request_entry;
                    case (job)
                        `XVEI_JOB_REQUEST: state <= request_exists ? MARK : FINISH;
                        `XVEI_JOB_ENTRY:
                            state <= operand[`HAIOV_HGENVEI_ENTRY] == 52'b0 ? FINISH : MARK;
                        `XVEI_JOB_CLAIM: state <= POP;
                        `XVEI_JOB_QUEUE: state <= FINISH;
                        default: state <= HEADER;
                    endcase
                end

                HEADER: if (mem_ack) begin
                    count <= doorbells;
                    fault <= valid && mem_rdata[`HAIOV_BELL_HEADER_MMIO] ? `XVEI_FAULT_MMIO
                        : `XVEI_FAULT_GUEST;
                    state <= valid && !misaligned ? SHADOW : FINISH;
                end
                SHADOW: if (mem_ack) begin
                    shadow_v <= shadowed;
                    shadow <= mem_rdata[`HAIOV_BELL_SHADOW_PPN];
                    if (load)
                        state <= shadowed ? LOADS : FINISH;
                    else
                        state <= count != 8'd0 ? MATCH : FINISH;
                end
                LOADS: if (mem_ack)
                    state <= enabled && !mem_err ? READ : FINISH;
                READ: if (mem_ack) begin
                    state <= FINISH;
                    if (!mem_err) begin
                        fault <= `FAULT_NONE;
                        data <= moved & ones;
                    end
                end

                MATCH: if (mem_ack) begin
                    clears <= mem_rdata[`HAIOV_BELL_MATCH_CLEAR];
                    posts <= mem_rdata[`HAIOV_BELL_MATCH_POST];
                    unit <= mem_rdata[`HAIOV_BELL_MATCH_UNIT];
                    entry <= request_entry;
                    exists <= request_exists;
                    if (mem_err)
                        state <= FINISH;
                    else if (fits)
                        state <= mem_rdata[`HAIOV_BELL_MATCH_DATA] ? VALUE : DECIDE;
                    else
                        go_on;
                end
                VALUE: if (mem_ack) begin
                    if (mem_err)
                        state <= FINISH;
                    else if (mem_rdata == stored)
                        state <= DECIDE;
                    else
                        go_on;
                end
                DECIDE: begin
                    if (posts)
                        state <= exists ? CHECK : FINISH;
                    else if (clears)
                        state <= shadow_v ? CLEAR : FINISH;
                    else begin
                        fault <= `FAULT_NONE;
                        state <= FINISH;
                    end
                end
                CHECK: if (mem_ack) begin
                    if (mem_err || !mem_rdata[`HAIOV_EVENT_CTL_V] || (clears && !shadow_v))
                        state <= FINISH;
                    else
                        state <= clears ? CLEAR : MARK;
                end
                CLEAR: if (mem_ack) begin
                    state <= posts && !mem_err ? MARK : FINISH;
                    if (!mem_err)
                        fault <= `FAULT_NONE;
                end

                MARK: if (mem_ack) begin
                    fault <= `FAULT_NONE;
                    id <= mem_rdata[`HAIOV_EVENT_CTL_ID];
                    who <= to[BITS-1:0];
                    state <= told && !mem_err ? PUSH : FINISH;
                end
                PUSH: if (no_place || mem_ack)
                    state <= FINISH;
                POP: if (queue_empty || mem_ack) begin
                    data[`HAIOV_HVEICLAIM_V] <= !queue_empty && !mem_err;
                    data[`HAIOV_HVEICLAIM_OVF] <= queue_lost || (!queue_empty && mem_err);
                    if (!queue_empty && !mem_err)
                        data[`HAIOV_HVEICLAIM_ID] <= mem_rdata[`HAIOV_HVEICLAIM_ID];
                    state <= FINISH;
                end
                default: state <= IDLE;  // FINISH
            endcase
        end
    end
endmodule
