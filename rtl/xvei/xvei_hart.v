// SPDX-License-Identifier: Apache-2.0 OR MIT
// What Xvei has for one hart: its port, hveitab and its queue.
//
// An access that only concerns hveitab, or reads hveiq, is answered here; all others wait for the
// engine. Nothing of an access that waits has been carried out, so that `withdraw` ends the wait.

`include "generated/haiov.vh"
`include "port.vh"
`include "xvei/xvei.vh"

module xvei_hart #(
    parameter QUEUE = 12
) (
    input  wire        clk,
    input  wire        reset,     // of all, or of this hart

    // Port. The request stays as it is until the answer.
    input  wire        req_valid,
    input  wire        req_page,
    input  wire [11:0] req_csr,
    input  wire [2:0]  req_op,
    input  wire [2:0]  req_mode,
    input  wire [63:0] req_operand,
    input  wire        withdraw,
    output reg         rsp_valid,
    output reg  [63:0] rsp_data,
    output reg  [1:0]  rsp_fault,
    output reg         rsp_retry,
    output wire        irq,

    // What the engine may take.
    output wire        want,
    output reg  [2:0]  job,
    input  wire        take,

    // State that the engine uses.
    output reg         table_v,
    output reg  [43:0] table_ppn,
    output reg  [3:0]  table_size,
    output wire        queue_open,
    output wire        queue_full,
    output wire        queue_empty,
    output wire        queue_lost,
    output wire [52:0] queue_address,

    // What the engine does to it.
    input  wire        busy,           // The engine has a job.
    input  wire        answer,         // The job of this hart ends.
    input  wire [63:0] data,
    input  wire [1:0]  fault,
    input  wire        retry,
    input  wire        fail,           // FLT becomes 1.
    input  wire        write,          // hveiq becomes what the access writes.
    input  wire        queue_push,
    input  wire        queue_pop,
    input  wire        queue_overflow,
    input  wire        queue_report,
    input  wire        queue_hold,
    input  wire        queue_head
);
    localparam [1:0] IDLE = 2'd0;
    localparam [1:0] WAITS = 2'd1;  // for the engine
    localparam [1:0] RUNS = 2'd2;   // in the engine

    reg [1:0]  state;
    reg        flt;
    reg        dead;  // Reset since the job of the engine began
    wire       live = !dead;

    wire [1:0] forbidden;
    xvei_rights rights (
        .csr(req_csr), .op(req_op), .mode(req_mode), .table_v(table_v), .fault(forbidden));

    // What the access reads, and what it writes.
    wire [63:0] base;
    reg  [63:0] old;
    always @* begin
        old = 64'b0;
        if (!req_page && req_csr == `HAIOV_CSR_HVEITAB) begin
            old[`HAIOV_HVEITAB_V] = table_v;
            old[`HAIOV_HVEITAB_PPN] = table_ppn;
            old[`HAIOV_HVEITAB_SIZE] = table_size;
        end else if (!req_page && req_csr == `HAIOV_CSR_HVEIQ) begin
            old = base;
            old[`HAIOV_HVEIQ_FLT] = flt;
        end
    end
    wire [63:0] value = req_op == `PORT_SET ? old | req_operand
                      : req_op == `PORT_CLEAR ? old & ~req_operand : req_operand;
    wire [3:0] size = value[`HAIOV_HVEITAB_SIZE] > 4'd10 ? 4'd10 : value[`HAIOV_HVEITAB_SIZE];
    // A table of more than 256 entries is larger than a page (VEI-3).
    wire [1:0] align = {size >= 4'd10, size >= 4'd9};

    // What the access asks for.
    wire reads_only = req_op == `PORT_READ;
    reg  engine;
    always @* begin
        job = `XVEI_JOB_PAGE;
        engine = 1'b1;
        if (!req_page)
            case (req_csr)
                `HAIOV_CSR_SGENVEI: begin
                    job = `XVEI_JOB_REQUEST;
                    engine = !reads_only;
                end
                `HAIOV_CSR_HGENVEI: begin
                    job = `XVEI_JOB_ENTRY;
                    engine = !reads_only;
                end
                `HAIOV_CSR_HVEICLAIM: begin  // CSR-8
                    job = `XVEI_JOB_CLAIM;
                    engine = req_op != `PORT_WRITE;
                end
                `HAIOV_CSR_HVEIQ: begin
                    job = `XVEI_JOB_QUEUE;
                    engine = !reads_only;
                end
                default: engine = 1'b0;
            endcase
    end
    // A job of before a reset uses the table that is named now: it ends first.
    wire new_access = state == IDLE && req_valid && !rsp_valid && live;
    wire refused = !req_page && forbidden != `FAULT_NONE;
    wire write_table = new_access && !req_page && !refused && !reads_only
        && req_csr == `HAIOV_CSR_HVEITAB;

    // A job that begins in the cycle of a reset would not know of it.
    assign want = state == WAITS && !withdraw && !reset;

    xtrapless_queue #(.QUEUE(QUEUE)) queue (
        .clk(clk), .reset(reset), .write(live && write), .value(value),
        .push(live && queue_push), .pop(live && queue_pop), .overflow(live && queue_overflow),
        .report(live && queue_report), .hold(queue_hold), .at_head(queue_head),
        .base(base), .raised(irq), .open(queue_open),  // VEI-10
        .full(queue_full), .empty(queue_empty), .lost(queue_lost), .address(queue_address));

    always @(posedge clk) begin
        if (!busy)
            dead <= 1'b0;
        else if (reset)
            dead <= 1'b1;
        rsp_valid <= 1'b0;
        if (reset) begin
            state <= IDLE;
            rsp_data <= 64'b0;
            rsp_fault <= `FAULT_NONE;
            rsp_retry <= 1'b0;
            flt <= 1'b0;
            table_v <= 1'b0;
            table_ppn <= 44'b0;
            table_size <= 4'b0;
        end else begin
            case (state)
                IDLE: if (new_access) begin
                    rsp_data <= refused ? 64'b0 : old;
                    rsp_fault <= refused ? forbidden : `FAULT_NONE;
                    rsp_retry <= 1'b0;
                    if (engine && !refused)
                        state <= WAITS;
                    else
                        rsp_valid <= 1'b1;
                end
                WAITS: begin
                    rsp_data <= old;
                    if (take)
                        state <= RUNS;
                    else if (withdraw) begin
                        state <= IDLE;
                        rsp_valid <= 1'b1;
                        rsp_retry <= 1'b1;
                        rsp_data <= 64'b0;
                    end
                end
                default: if (live && answer) begin  // RUNS
                    state <= IDLE;
                    rsp_valid <= 1'b1;
                    rsp_fault <= fault;
                    rsp_retry <= retry;
                    if (job != `XVEI_JOB_QUEUE)
                        rsp_data <= data;
                end
            endcase
            if (write_table) begin
                table_v <= value[`HAIOV_HVEITAB_V];
                table_ppn <= value[`HAIOV_HVEITAB_PPN] & ~{42'b0, align};
                table_size <= size;
            end
            if (live && fail)
                flt <= 1'b1;
            else if (live && write)
                flt <= flt && value[`HAIOV_HVEIQ_FLT];
        end
    end
endmodule
