// SPDX-License-Identifier: Apache-2.0 OR MIT
// What belongs to one hart: its CSR port, registers, slot, latches, timers, queue, and the posts
// that its last sgenipi has left to do.
//
// An access that only concerns registers of this hart is answered here; all others wait for the
// engine. Nothing of an access that waits has been carried out, so that `withdraw` ends the wait
// (CSR-4, EXT-11).

`include "generated/xtrapless.vh"
`include "port.vh"

module xtrapless_hart #(
    parameter H = 1,
    parameter QUEUE = 12
) (
    input  wire        clk,
    input  wire        reset,        // of the controller, or of this hart (ACC-4)

    // CSR port. The request stays as it is until the answer.
    input  wire        req_valid,
    input  wire [11:0] req_csr,
    input  wire [2:0]  req_op,
    input  wire [2:0]  req_mode,
    input  wire [63:0] req_operand,
    input  wire        withdraw,
    output reg         rsp_valid,
    output reg  [63:0] rsp_data,
    output reg  [1:0]  rsp_fault,
    output reg         rsp_retry,

    // Interrupts and what they depend on.
    input  wire        v,
    input  wire [63:0] now,
    input  wire [63:0] delta,
    input  wire [1:0]  hip_clear,
    output wire [1:0]  terms,
    output wire [1:0]  latches,
    output wire        vstip,
    output wire        stip,
    output wire        notify,
    output wire        split,
    output wire        settled,
    output wire        posting,

    // What the engine may take: an access, a post.
    output wire        want,
    output wire        want_post,
    output reg  [3:0]  job,
    output wire [2:0]  job_op,
    output wire [63:0] job_operand,
    output wire [15:0] post_dom,
    output wire [15:0] post_target,
    input  wire        hold_posts,   // Begin no new sgenipi: a SYNC waits for those under way.
    input  wire        take,
    input  wire        take_post,

    // State that the engine uses.
    output reg         slot_v,
    output reg  [15:0] slot_dom,
    output reg  [15:0] slot_vhart,
    output wire        tables_v,
    output wire [43:0] tables_ppn,
    output wire [4:0]  tables_size,
    output wire        any,
    output wire        queue_open,
    output wire        queue_full,
    output wire        queue_empty,
    output wire        queue_lost,
    output wire [52:0] queue_address,

    // What the engine does to it.
    input  wire        busy,         // The engine has a job.
    input  wire        answer,
    input  wire        answer_data,  // hnotify, vsclaim, vsthreshold: else what the register was
    input  wire        answer_retry,
    input  wire        answer_early, // vsip is to change yet.
    input  wire        job_end,      // The engine has ended a job that this hart caused.
    input  wire [63:0] data,
    input  wire        slot_write,
    input  wire        slot_value,   // V
    input  wire [15:0] slot_new_dom,
    input  wire [15:0] slot_new_vhart,
    input  wire [1:0]  terms_change,
    input  wire [1:0]  terms_value,
    input  wire        poke,
    input  wire        fail,         // FLT becomes 1.
    input  wire        write,        // The register of the job becomes what the access writes.
    input  wire        queue_push,
    input  wire        queue_pop,
    input  wire        queue_overflow,
    input  wire        queue_report,
    input  wire        tables_hold,    // It waits for memory, with an address of these tables,
    input  wire        queue_hold,     // or of the queue: a reset of them waits, too.
    input  wire        queue_head
);
    localparam [1:0] IDLE = 2'd0;
    localparam [1:0] WAITS = 2'd1;    // for the engine
    localparam [1:0] RUNS = 2'd2;     // in the engine
    localparam [1:0] POSTS = 2'd3;    // until the writer's own vhart has been posted to

    reg [1:0]  state;
    reg        en;
    reg        any_r;
    reg        flt;
    reg [63:0] grant;
    reg [63:0] tables;
    reg        tables_due;  // A reset of hvtablebase that waits
    reg        unsettled;
    reg        own_runs;   // The engine posts to the writer of an sgenipi itself,
    reg        post_runs;  // or to any of its targets.
    reg        dead;       // Reset since the job of the engine began (ACC-4).
    wire       live = !dead;

    wire [63:0] hnqbase;
    wire [63:0] timer_old;
    wire        post_busy;
    wire        post_own;
    wire [1:0]  fault;

    xtrapless_rights #(.H(H)) rights (
        .csr(req_csr), .op(req_op), .mode(req_mode),
        .operation(req_operand[`XTL_UGENVSEI_OP]), .source(req_operand[`XTL_UGENVSEI_ID]),
        .slot_v(slot_v), .en(en), .grant_v(grant[`XTL_HGRANT_V]),
        .grant_first(grant[`XTL_HGRANT_FIRST]), .grant_count(grant[`XTL_HGRANT_COUNT]),
        .fault(fault));

    // What the access reads, and what it writes.
    reg [63:0] old;
    always @* begin
        old = 64'b0;
        case (req_csr)
            `XTL_CSR_HIFMAP:
                old = {slot_v, 15'b0, slot_dom & {16{slot_v}}, 16'b0, slot_vhart & {16{slot_v}}};
            `XTL_CSR_HTLCFG: begin
                old[`XTL_HTLCFG_VERSION] = `XTL_VERSION;
                old[`XTL_HTLCFG_FLT] = flt;
                old[`XTL_HTLCFG_ANY] = any_r;
                old[`XTL_HTLCFG_EN] = en;
            end
            `XTL_CSR_HGRANT: old = grant;
            `XTL_CSR_HNQBASE: old = hnqbase;
            `XTL_CSR_HVTABLEBASE: old = tables_due ? 64'b0 : tables;
            `CSR_STIMECMP, `CSR_VSTIMECMP: old = timer_old;
            default: old = 64'b0;
        endcase
    end
    wire [63:0] value = req_op == `PORT_SET ? old | req_operand
                      : req_op == `PORT_CLEAR ? old & ~req_operand : req_operand;

    // What the access asks for.
    wire reads_only = req_op == `PORT_READ;
    wire guest = req_mode[2];
    wire timer = req_csr == `CSR_STIMECMP || req_csr == `CSR_VSTIMECMP;
    wire timer_of_guest = guest || req_csr == `CSR_VSTIMECMP;
    wire generates = req_csr == `XTL_CSR_HGENVSI || req_csr == `XTL_CSR_UGENVSEI;
    wire posts = req_csr == `XTL_CSR_SGENIPI && guest && !reads_only;
    // Jobs that change what the rest of an sgenipi uses wait until it is done.
    wire after_posts = req_csr == `XTL_CSR_HVTABLEBASE || req_csr == `XTL_CSR_HTLCFG;
    reg  engine;
    always @* begin
        engine = !reads_only;
        job = `JOB_GENERATE;
        case (req_csr)
            `XTL_CSR_SGENIPI: begin
                job = `JOB_SEND;
                engine = !reads_only && !guest;
            end
            `XTL_CSR_VSCLAIM: begin
                job = `JOB_CLAIM;
                engine = 1'b1;
            end
            `XTL_CSR_VSENABLE: job = `JOB_ENABLE;
            `XTL_CSR_VSTHRESHOLD: begin
                job = `JOB_THRESHOLD;
                engine = 1'b1;
            end
            `CSR_VSIP: begin  // BIT-4
                job = `JOB_SSIP;
                engine = slot_v && (req_op == `PORT_WRITE || req_op == `PORT_SWAP
                    || (!reads_only && req_operand[1]));
            end
            `XTL_CSR_HIFMAP: job = `JOB_MAP;
            `XTL_CSR_HTLCFG: job = `JOB_CONFIG;
            `XTL_CSR_HNQBASE: job = `JOB_QUEUE;
            `XTL_CSR_HVTABLEBASE: job = `JOB_TABLES;
            `XTL_CSR_HNOTIFY: begin  // CSR-8
                job = `JOB_NOTIFY;
                engine = req_op != `PORT_WRITE;
            end
            `XTL_CSR_HGENVSI:
                if (req_operand[`XTL_HGENVSI_OP] == `XTL_OP_SYNC)
                    job = `JOB_SYNC;
            `XTL_CSR_HGRANT: engine = 1'b0;
            `CSR_STIMECMP, `CSR_VSTIMECMP: engine = 1'b0;
            default: ;
        endcase
    end

    // The domain of ugenvsei is that of the grant, whatever the operand says.
    reg [63:0] generated;
    always @* begin
        generated = req_operand;
        if (req_csr == `XTL_CSR_UGENVSEI)
            generated[`XTL_HGENVSI_DOM] = grant[`XTL_HGRANT_DOM];
    end

    assign job_op = req_op;
    assign job_operand = generates ? generated
                       : job == `JOB_MAP || job == `JOB_CONFIG ? value : req_operand;
    // A job that begins in the cycle of a reset would not know of it.
    assign want = state == WAITS && !withdraw && !reset
        && !(after_posts && (post_busy || post_runs));
    assign want_post = post_busy && !reset;

    wire new_access = state == IDLE && req_valid && !rsp_valid;
    wire accept = new_access && fault == `FAULT_NONE && posts && !post_busy && !hold_posts;
    wire write_timer = new_access && fault == `FAULT_NONE && timer && !reads_only;

    xtrapless_posts buffer (
        .clk(clk), .reset(reset), .accept(accept),
        .base(req_operand[`XTL_SGENIPI_BASE]), .mask(req_operand[`XTL_SGENIPI_MASK]),
        .dom(slot_dom), .self(slot_vhart), .take(take_post),
        .busy(post_busy), .own(post_own), .domain(post_dom), .target(post_target));

    xtrapless_bits bits (
        .clk(clk), .reset(reset), .v(v), .clear(hip_clear), .change(terms_change & {2{live}}),
        .value(terms_value), .poke(poke), .terms(terms), .latches(latches));

    xtrapless_timer timers (
        .clk(clk), .reset(reset), .now(now), .delta(delta), .write(write_timer),
        .of_guest(timer_of_guest), .op(req_op), .operand(req_operand), .old(timer_old),
        .vstip(vstip), .stip(stip));

    xtrapless_queue #(.QUEUE(QUEUE)) queue (
        .clk(clk), .reset(reset), .write(live && write && job == `JOB_QUEUE), .value(value),
        .push(live && queue_push), .pop(live && queue_pop), .overflow(live && queue_overflow),
        .report(live && queue_report),
        .hold(queue_hold), .at_head(queue_head), .base(hnqbase), .raised(notify),  // NTF-1, NTF-8
        .open(queue_open), .full(queue_full),
        .empty(queue_empty), .lost(queue_lost), .address(queue_address));

    assign split = en;
    assign any = any_r;
    assign tables_v = tables[`XTL_HVTABLEBASE_V];
    assign tables_ppn = tables[`XTL_HVTABLEBASE_PPN];
    assign tables_size = tables[`XTL_HVTABLEBASE_SIZE];
    assign settled = !unsettled && !(post_own && state != POSTS) && !(own_runs && state != POSTS);
    assign posting = post_busy || post_runs;

    always @(posedge clk) begin
        if (!busy)
            dead <= 1'b0;
        else if (reset)
            dead <= 1'b1;
        rsp_valid <= 1'b0;
        tables_due <= (reset || tables_due) && tables_hold;
        if ((reset || tables_due) && !tables_hold)
            tables <= 64'b0;
        else if (live && write && job == `JOB_TABLES) begin
            tables <= value & `XTL_HVTABLEBASE_FIELDS;
            // CSR-3
            tables[`XTL_HVTABLEBASE_SIZE] <= value[`XTL_HVTABLEBASE_SIZE] > 5'd16 ? 5'd16
                : value[`XTL_HVTABLEBASE_SIZE];
        end
        if (reset) begin
            state <= IDLE;
            rsp_data <= 64'b0;
            rsp_fault <= `FAULT_NONE;
            rsp_retry <= 1'b0;
            en <= 1'b0;
            any_r <= 1'b0;
            flt <= 1'b0;
            grant <= 64'b0;
            slot_v <= 1'b0;
            slot_dom <= 16'b0;
            slot_vhart <= 16'b0;
            unsettled <= 1'b0;
            own_runs <= 1'b0;
            post_runs <= 1'b0;
        end else begin
            case (state)
                IDLE: if (new_access) begin
                    rsp_data <= fault == `FAULT_NONE ? old : 64'b0;
                    rsp_fault <= fault;
                    rsp_retry <= 1'b0;
                    if (fault != `FAULT_NONE)
                        rsp_valid <= 1'b1;
                    else if (posts) begin
                        if (accept)
                            state <= POSTS;
                        else if (withdraw) begin
                            rsp_valid <= 1'b1;
                            rsp_retry <= 1'b1;
                        end
                    end else if (engine)
                        state <= WAITS;
                    else
                        rsp_valid <= 1'b1;
                    if (fault == `FAULT_NONE && req_csr == `XTL_CSR_HGRANT && !reads_only)
                        grant <= value & `XTL_HGRANT_FIELDS;
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
                RUNS: if (live && answer) begin
                    state <= IDLE;
                    rsp_valid <= 1'b1;
                    rsp_retry <= answer_retry;
                    if (answer_data)
                        rsp_data <= data;
                end
                POSTS: if (withdraw || (!post_own && !own_runs)) begin
                    state <= IDLE;
                    rsp_valid <= 1'b1;
                end
            endcase

            if (take_post && post_own)
                own_runs <= 1'b1;
            else if (job_end)
                own_runs <= 1'b0;
            if (take_post)
                post_runs <= 1'b1;
            else if (job_end)
                post_runs <= 1'b0;

            if (live && answer && answer_early)
                unsettled <= 1'b1;
            else if (job_end)
                unsettled <= 1'b0;

            if (live && slot_write) begin
                slot_v <= slot_value;
                if (slot_value) begin
                    slot_dom <= slot_new_dom;
                    slot_vhart <= slot_new_vhart;
                end
            end
            if (live && write && job == `JOB_CONFIG) begin
                en <= value[`XTL_HTLCFG_EN];
                any_r <= value[`XTL_HTLCFG_ANY];
                flt <= flt && value[`XTL_HTLCFG_FLT];
            end
            if (live && fail)
                flt <= 1'b1;
        end
    end
endmodule
