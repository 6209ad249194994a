// SPDX-License-Identifier: Apache-2.0 OR MIT
// Properties of single steps of the controller, for yosys-smtbmc: by induction, so for jobs of any
// length, tables and files of any contents, memory that answers at any time and with errors, and
// harts that are reset at any time.

`include "generated/xtrapless.vh"
`include "port.vh"
`include "engine.vh"

module steps (
    input wire clk
);
    localparam HARTS = 2;
    localparam BITS = 1;

    (* anyseq *) wire [HARTS-1:0]    hart_reset, req_valid, withdraw, v;
    (* anyseq *) wire [12*HARTS-1:0] req_csr;
    (* anyseq *) wire [3*HARTS-1:0]  req_op, req_mode;
    (* anyseq *) wire [64*HARTS-1:0] req_operand;
    (* anyseq *) wire [2*HARTS-1:0]  hip_clear;
    (* anyseq *) wire                mem_ack, mem_err;
    (* anyseq *) wire [63:0]         mem_rdata;
    reg begun = 1'b0;
    wire reset = !begun;
    wire mem_req;
    wire [1:0] mem_op;
    wire [5:0] mem_hart;
    wire [55:3] mem_addr;
    wire [63:0] mem_mask, mem_wdata;
    wire [HARTS-1:0] rsp_valid, rsp_retry, notify;
    wire [64*HARTS-1:0] rsp_data;

    xtrapless #(.HARTS(HARTS), .QUEUE(2)) dut (
        .clk(clk), .reset(reset), .hart_reset(hart_reset), .req_valid(req_valid),
        .req_csr(req_csr), .req_op(req_op), .req_mode(req_mode), .req_operand(req_operand),
        .withdraw(withdraw), .rsp_valid(rsp_valid), .rsp_data(rsp_data), .rsp_fault(),
        .rsp_retry(rsp_retry), .v(v), .hip_clear(hip_clear), .now(64'b0), .delta({HARTS{64'b0}}),
        .vssip(), .vseip(), .hip_vssip(), .hip_vseip(), .vstip(), .stip(), .notify(notify), .ipi(),
        .split(), .settled(), .posting(), .mem_req(mem_req), .mem_op(mem_op), .mem_hart(mem_hart),
        .mem_addr(mem_addr), .mem_mask(mem_mask), .mem_wdata(mem_wdata), .mem_ack(mem_ack),
        .mem_err(mem_err), .mem_rdata(mem_rdata), .job_busy(), .job_end(), .job_hart(),
        .job_post(), .job_target());

    // Registers of it, by the names that they have when all is flattened.
    (* hierconn *) wire [4:0]  \dut.engine.state ;
    (* hierconn *) wire [3:0]  \dut.engine.flow ;
    (* hierconn *) wire [3:0]  \dut.engine.job ;
    (* hierconn *) wire [2:0]  \dut.engine.op ;
    (* hierconn *) wire [63:0] \dut.engine.operand ;
    (* hierconn *) wire [63:0] \dut.engine.data ;
    (* hierconn *) wire [15:0] \dut.engine.dom ;
    (* hierconn *) wire [15:0] \dut.engine.vhart ;
    (* hierconn *) wire [15:0] \dut.engine.source ;
    (* hierconn *) wire [BITS-1:0] \dut.engine.hart ;
    (* hierconn *) wire [BITS-1:0] \dut.engine.who ;
    (* hierconn *) wire        \dut.engine.exists ;
    (* hierconn *) wire        \dut.engine.settle ;
    (* hierconn *) wire        \dut.engine.answer ;
    (* hierconn *) wire        \dut.engine.answer_retry ;
    (* hierconn *) wire        \dut.engine.answer_data ;
    (* hierconn *) wire        \dut.engine.answered ;
    (* hierconn *) wire        \dut.engine.more ;
    (* hierconn *) wire        \dut.engine.whole ;
    (* hierconn *) wire [1:0]  \dut.engine.leave ;
    (* hierconn *) wire [2:0]  \dut.engine.prio ;
    (* hierconn *) wire        \dut.engine.poke ;
    (* hierconn *) wire [1:0]  \dut.engine.terms_change ;
    (* hierconn *) wire        \dut.engine.queue_push ;
    (* hierconn *) wire        \dut.engine.queue_overflow ;
    (* hierconn *) wire        \dut.engine.walk.second ;
    (* hierconn *) wire        \dut.engine_req ;
    (* hierconn *) wire [9:0]  \dut.engine.sources ;
    (* hierconn *) wire [60:0] \dut.engine.entry ;
    (* hierconn *) wire [60:0] \dut.engine.file ;
    (* hierconn *) wire [60:0] \dut.engine.lines ;
    (* hierconn *) wire [60:0] \dut.engine.walk.table_at ;
    (* hierconn *) wire [31:0] \dut.engine.posted ;
    (* hierconn *) wire [60:0] \dut.mem_base ;
    (* hierconn *) wire [17:0] \dut.mem_word ;
    (* hierconn *) wire [87:0] \dut.tables_ppns ;
    (* hierconn *) wire        \dut.harts[0].unit.dead ;
    (* hierconn *) wire        \dut.harts[1].unit.dead ;
    wire [1:0] dead = {\dut.harts[1].unit.dead , \dut.harts[0].unit.dead };
    (* hierconn *) wire        \dut.harts[0].unit.new_access ;
    (* hierconn *) wire        \dut.harts[1].unit.new_access ;
    wire [1:0] begins = {\dut.harts[1].unit.new_access , \dut.harts[0].unit.new_access };
    (* hierconn *) wire [1:0]  \dut.harts[0].unit.state ;
    (* hierconn *) wire [1:0]  \dut.harts[1].unit.state ;
    wire [3:0] units = {\dut.harts[1].unit.state , \dut.harts[0].unit.state };
    (* hierconn *) wire        \dut.harts[0].unit.post_busy ;
    (* hierconn *) wire        \dut.harts[1].unit.post_busy ;
    wire [1:0] has_posts = {\dut.harts[1].unit.post_busy , \dut.harts[0].unit.post_busy };
    (* hierconn *) wire        \dut.harts[0].unit.en ;
    (* hierconn *) wire        \dut.harts[1].unit.en ;
    wire [1:0] enabled = {\dut.harts[1].unit.en , \dut.harts[0].unit.en };
    (* hierconn *) wire        \dut.harts[0].unit.flt ;
    (* hierconn *) wire        \dut.harts[1].unit.flt ;
    wire [1:0] faults = {\dut.harts[1].unit.flt , \dut.harts[0].unit.flt };
    (* hierconn *) wire [63:0] \dut.harts[0].unit.hnqbase ;
    (* hierconn *) wire [63:0] \dut.harts[1].unit.hnqbase ;
    wire [127:0] queue_bases = {\dut.harts[1].unit.hnqbase , \dut.harts[0].unit.hnqbase };
    (* hierconn *) wire        \dut.harts[0].unit.queue.due ;
    (* hierconn *) wire        \dut.harts[1].unit.queue.due ;
    wire [1:0] queue_due = {\dut.harts[1].unit.queue.due , \dut.harts[0].unit.queue.due };
    (* hierconn *) wire        \dut.harts[0].unit.tables_due ;
    (* hierconn *) wire        \dut.harts[1].unit.tables_due ;
    wire [1:0] tables_due = {\dut.harts[1].unit.tables_due , \dut.harts[0].unit.tables_due };
    (* hierconn *) wire [63:0] \dut.harts[0].unit.grant ;
    (* hierconn *) wire [63:0] \dut.harts[1].unit.grant ;
    wire [127:0] grants = {\dut.harts[1].unit.grant , \dut.harts[0].unit.grant };
    (* hierconn *) wire [HARTS-1:0] \dut.tables_vs ;
    (* hierconn *) wire [HARTS-1:0] \dut.queues_open ;
    (* hierconn *) wire        \dut.ack ;
    (* hierconn *) wire        \dut.err ;
    (* hierconn *) wire [2:0]  \dut.engine.search.step ;
    (* hierconn *) wire [3:0]  \dut.engine.search.word ;
    (* hierconn *) wire [63:0] \dut.engine.search.left ;
    (* hierconn *) wire        \dut.engine.search.found ;
    (* hierconn *) wire [9:0]  \dut.engine.search.source ;
    (* hierconn *) wire [HARTS-1:0] \dut.slot_vs ;
    (* hierconn *) wire [16*HARTS-1:0] \dut.slot_doms ;
    (* hierconn *) wire [16*HARTS-1:0] \dut.slot_vharts ;
    wire [4:0] state = \dut.engine.state ;
    wire [3:0] flow = \dut.engine.flow ;
    wire [3:0] job = \dut.engine.job ;
    wire [63:0] operand = \dut.engine.operand ;
    wire own = \dut.engine.who == \dut.engine.hart ;
    wire [HARTS-1:0] slot_v = \dut.slot_vs ;
    wire finds = state == `STEP_FIND_DOMAIN || state == `STEP_FIND_FILE;
    wire searches = state == `STEP_SEARCH;
    wire maps = flow == `FLOW_PROBE || flow == `FLOW_ATTACH || flow == `FLOW_DETACH;

    // Jobs without a flow leave that of the job before.
    wire at_rest = state == `STEP_IDLE || state == `STEP_START || state == `STEP_FINISH
        || state == `STEP_POP;
    // Steps that belong to a flow.
    wire tells = state == `STEP_MARK || state == `STEP_CHOOSE || state == `STEP_PUSH;
    wire drives = finds || state == `STEP_FIND_SOURCE || state == `STEP_FIND_LINES
        || state == `STEP_SET_PENDING || state == `STEP_GET_CTL || state == `STEP_LOOK;
    wire looks = tells || state == `STEP_GET_ENABLE || state == `STEP_GET_THRESHOLD;
    reg fits;
    always @* begin
        case (flow)
            `FLOW_SOFT: fits = finds || state == `STEP_SET_SOFT || state == `STEP_LOOK || tells;
            `FLOW_EVAL: fits = finds || state == `STEP_GET_CTL || state == `STEP_LOOK
                || state == `STEP_SEARCH || tells;
            `FLOW_EDGE: fits = (drives && state != `STEP_FIND_LINES) || looks;
            `FLOW_ASSERT: fits = drives || state == `STEP_SET_LINE || looks;
            `FLOW_DEASSERT: fits = drives || state == `STEP_SET_LINE;
            `FLOW_COMPLETE: fits = drives || state == `STEP_SET_LINE || state == `STEP_GET_LINE
                || state == `STEP_SET_RESAMPLE || state == `STEP_CLAIM_ALSO || looks;
            `FLOW_ENABLE: fits = finds || state == `STEP_SET_ENABLE || state == `STEP_SEARCH;
            `FLOW_THRESHOLD: fits = finds || state == `STEP_GET_THRESHOLD
                || state == `STEP_SET_THRESHOLD || state == `STEP_SEARCH;
            `FLOW_SSIP: fits = finds || state == `STEP_SET_SOFT;
            `FLOW_POKE: fits = finds || state == `STEP_GET_CTL || state == `STEP_SEARCH
                || state == `STEP_CLAIM_ALSO;
            `FLOW_PROBE: fits = finds || state == `STEP_MAP;
            `FLOW_ATTACH: fits = finds || state == `STEP_SET_STATE || state == `STEP_SEARCH;
            `FLOW_DETACH: fits = finds || state == `STEP_SET_STATE || state == `STEP_SEARCH
                || state == `STEP_MAP || tells;
            `FLOW_CLAIM: fits = finds || state == `STEP_SEARCH || state == `STEP_SET_PENDING;
            default: fits = 1'b0;
        endcase
    end

    // Flows that belong to a job.
    reg serves;
    always @* begin
        case (job)
            `JOB_POST: serves = flow == `FLOW_SOFT || flow == `FLOW_POKE;
            `JOB_CLAIM: serves = flow == `FLOW_COMPLETE || flow == `FLOW_CLAIM
                || flow == `FLOW_POKE;
            `JOB_ENABLE: serves = flow == `FLOW_ENABLE;
            `JOB_THRESHOLD: serves = flow == `FLOW_THRESHOLD;
            `JOB_SSIP: serves = flow == `FLOW_SSIP;
            `JOB_MAP: serves = maps;
            `JOB_CONFIG: serves = flow == `FLOW_DETACH;
            `JOB_GENERATE: serves = flow <= `FLOW_DEASSERT || flow == `FLOW_POKE;
            default: serves = 1'b0;
        endcase
    end

    integer h;
    reg [HARTS-1:0] slot_is_operand;
    always @* begin
        for (h = 0; h < HARTS; h = h + 1)
            slot_is_operand[h] = \dut.slot_doms [16*h+:16] == operand[`XTL_HIFMAP_DOM]
                && \dut.slot_vharts [16*h+:16] == operand[`XTL_HIFMAP_VHART];
    end

    // The job has taken its source out of the file: one atomic access that found its bit set.
    wire takes = state == `STEP_SET_PENDING && flow == `FLOW_CLAIM && \dut.ack && !\dut.err
        && mem_rdata[\dut.engine.source [5:0]];
    reg took;
    reg begun_before = 1'b0;
    reg [HARTS-1:0] slots_before;
    reg [16*HARTS-1:0] doms_before, vharts_before;
    reg [63:0] operand_before;
    reg [BITS-1:0] hart_before;
    reg [3:0] job_before;
    always @(posedge clk) begin
        begun <= 1'b1;
        begun_before <= begun;
        slots_before <= slot_v;
        doms_before <= \dut.slot_doms ;
        vharts_before <= \dut.slot_vharts ;
        operand_before <= operand;
        hart_before <= \dut.engine.hart ;
        job_before <= job;
        if (!begun || state == `STEP_IDLE)
            took <= 1'b0;
        else if (takes)
            took <= 1'b1;
    end

    // What a post has yet to lead to, by what memory has answered (DEL-1, DEL-2, DEL-6 to DEL-11):
    // a lookup; a poke of a hart; the look whether a source is deliverable; the mark in CTL; a
    // notification.
    localparam [2:0] NOTHING = 3'd0, LOOKUP = 3'd1, POKE = 3'd2, DELIVERABLE = 3'd3, MARK = 3'd4,
        TELL = 3'd5;
    reg [2:0] owed;
    reg [BITS-1:0] owed_to;
    wire answers = \dut.ack && !\dut.err ;
    wire [1:0] ctl_state = mem_rdata[`XTL_FILE_CTL_STATE];
    wire there = ctl_state == `XTL_STATE_LOADED && mem_rdata[`XTL_FILE_CTL_HART] < HARTS;
    wire absent = (ctl_state == `XTL_STATE_HALTED || ctl_state == `XTL_STATE_PREEMPTED)
        && !mem_rdata[`XTL_FILE_CTL_ON];
    wire sets_pending = state == `STEP_SET_PENDING && flow != `FLOW_CLAIM && flow != `FLOW_DEASSERT;
    wire posts_soft = state == `STEP_SET_SOFT && flow == `FLOW_SOFT;
    always @(posedge clk) begin
        if (!begun || state == `STEP_IDLE || (\dut.ack && \dut.err ))
            owed <= NOTHING;  // An error is told by FLT (MEM-6).
        else if (posts_soft && answers) begin
            owed <= there ? POKE : absent ? MARK : NOTHING;
            owed_to <= mem_rdata[16+:BITS];
        end else if (sets_pending && answers)
            owed <= LOOKUP;
        else case (owed)
            LOOKUP: if (state == `STEP_GET_CTL && answers) begin
                owed <= there ? POKE : absent ? DELIVERABLE : NOTHING;
                owed_to <= mem_rdata[16+:BITS];
            end
            DELIVERABLE:
                if (state == `STEP_GET_ENABLE && answers && !mem_rdata[\dut.engine.source [5:0]])
                    owed <= NOTHING;
                else if (state == `STEP_GET_THRESHOLD && answers)
                    owed <= \dut.engine.prio > mem_rdata[`XTL_VSTHRESHOLD_PRIO] ? MARK : NOTHING;
            POKE:
                if (\dut.engine.who == owed_to && (\dut.engine.poke
                        || (state == `STEP_LOOK && !slot_v[owed_to])
                        || (finds && \dut.engine.terms_change == 2'b11)))
                    owed <= NOTHING;
            MARK: if (state == `STEP_MARK && answers)
                owed <= absent ? TELL : NOTHING;
            // A queue that is reset loses what it has; one that has just been chosen likewise.
            TELL: if (\dut.engine.queue_push || \dut.engine.queue_overflow
                    || (state == `STEP_PUSH && !\dut.queues_open [\dut.engine.who ])
                    || (state == `STEP_CHOOSE && \dut.queues_open == {HARTS{1'b0}}))
                owed <= NOTHING;
            default: ;
        endcase
    end

    // The domain that a job may touch: that of the post, of the operand that the hart hands over,
    // or of the slot; a poke that of the slot of the hart that is poked. And where its tables are,
    // by what memory has answered.
    reg [15:0] domain;
    reg [60:0] its_entry, its_vharts, its_file, its_lines;
    wire [60:0] base_now = {8'b0, \dut.tables_ppns [44*\dut.engine.who +:44], 9'b0};
    wire [15:0] slot_domain = \dut.slot_doms [16*\dut.engine.who +:16];
    always @(posedge clk) begin
        case (state)
            `STEP_START: domain <= job == `JOB_POST ? \dut.engine.posted [31:16]
                : job == `JOB_GENERATE || (job == `JOB_MAP && operand[`XTL_HIFMAP_V])
                ? operand[`XTL_HGENVSI_DOM] : slot_domain;
            `STEP_LOOK, `STEP_CLAIM_ALSO: domain <= slot_domain;
            `STEP_MAP: if (flow == `FLOW_DETACH)
                domain <= slot_v[\dut.engine.who ] ? slot_domain : operand[`XTL_HIFMAP_DOM];
            default: ;
        endcase
        if (\dut.ack && state == `STEP_FIND_DOMAIN)
            its_entry <= base_now + {43'b0, domain, 2'b00};
        if (\dut.ack && state == `STEP_FIND_FILE && !\dut.engine.walk.second )
            its_vharts <= mem_rdata[63:3];
        if (\dut.ack && state == `STEP_FIND_FILE && \dut.engine.walk.second )
            its_file <= {8'b0, mem_rdata[`XTL_VHART_ENTRY_FILE], 7'b0};
        if (\dut.ack && state == `STEP_FIND_LINES)
            its_lines <= mem_rdata[63:3];
    end
    wire in_file = state == `STEP_SET_SOFT || state == `STEP_SET_PENDING || state == `STEP_GET_CTL
        || state == `STEP_SET_ENABLE || state == `STEP_SET_THRESHOLD || state == `STEP_SET_STATE
        || state == `STEP_GET_ENABLE || state == `STEP_GET_THRESHOLD || state == `STEP_MARK;
    wire in_lines = state == `STEP_SET_LINE || state == `STEP_GET_LINE
        || state == `STEP_SET_RESAMPLE;

    // How far a job is: it grows with each step.
    reg [1:0] phase;
    reg [4:0] place;
    always @* begin
        case (flow)
            `FLOW_POKE, `FLOW_DETACH: phase = 2'd1;
            `FLOW_CLAIM, `FLOW_ATTACH: phase = 2'd2;
            default: phase = 2'd0;
        endcase
        case (state)
            `STEP_FIND_DOMAIN: place = 5'd2;
            `STEP_FIND_SOURCE: place = 5'd3;
            `STEP_FIND_LINES: place = 5'd4;
            `STEP_SET_LINE, `STEP_GET_LINE: place = 5'd5;
            `STEP_SET_RESAMPLE, `STEP_FIND_FILE: place = 5'd6;
            `STEP_SET_SOFT, `STEP_SET_ENABLE, `STEP_SET_THRESHOLD, `STEP_SET_STATE: place = 5'd7;
            `STEP_SET_PENDING: place = 5'd9;
            `STEP_GET_CTL: place = 5'd10;
            `STEP_GET_ENABLE: place = 5'd11;
            `STEP_GET_THRESHOLD: place = 5'd12;
            `STEP_SEARCH: place = flow == `FLOW_CLAIM && !\dut.engine.settle ? 5'd8 : 5'd13;
            `STEP_MARK: place = 5'd14;
            `STEP_CHOOSE: place = 5'd15;
            `STEP_PUSH, `STEP_POP: place = 5'd16;
            `STEP_LOOK: place = 5'd17;
            `STEP_MAP: place = flow == `FLOW_PROBE ? 5'd18
                : slot_v[\dut.engine.who ] ? 5'd1 : 5'd19;
            `STEP_CLAIM_ALSO: place = 5'd20;
            default: place = 5'd0;
        endcase
        if (state == `STEP_CLAIM_ALSO && phase == 2'd0)
            phase = 2'd1;
        if (state == `STEP_FINISH)
            phase = 2'd3;
    end
    wire [78:0] far = {phase, place, \dut.engine.walk.second && state != `STEP_SEARCH,
        searches ? {\dut.engine.search.step == 3'd5 || \dut.engine.search.step > 3'd5 ? 4'd15
            : \dut.engine.search.word , \dut.engine.search.step ,
            \dut.engine.search.step == 3'd4 ? ~\dut.engine.search.left : 64'b0} : 71'b0};
    reg [78:0] far_before;
    reg steps_before = 1'b0;
    always @(posedge clk) begin
        far_before <= far;
        // Memory has answered, or is not asked. What a claim has found may be gone when it takes
        // it: then it begins again, because somebody else has got on.
        steps_before <= begun && state != `STEP_IDLE && state != `STEP_START
            && state != `STEP_FINISH && (!\dut.engine_req || \dut.ack )
            && !(state == `STEP_SET_PENDING && flow == `FLOW_CLAIM && answers
                && !mem_rdata[\dut.engine.source [5:0]]);
    end

    // The request of the cycle before, which memory has not answered.
    reg waits_before = 1'b0;
    reg [HARTS-1:0] fresh = {HARTS{1'b0}};  // Reset, and nothing accessed since.
    reg [1:0] op_before;
    reg [5:0] mem_hart_before;
    reg [55:3] addr_before;
    reg [63:0] mask_before, wdata_before;
    always @(posedge clk) begin
        fresh <= {HARTS{!begun}} | hart_reset | (fresh & ~begins);
        waits_before <= begun && mem_req && !mem_ack;
        {op_before, mem_hart_before, addr_before} <= {mem_op, mem_hart, mem_addr};
        {mask_before, wdata_before} <= {mem_mask, mem_wdata};
    end

    always @* begin
        // A request stays as it is only as far as the core is concerned: here it may change at any
        // time, because the engine has a copy.
        assume (\dut.engine.hart < HARTS && \dut.engine.who < HARTS);
        // What all of it needs: the steps of a job; a hart that has been reset has no slot.
        if (begun) begin
            assert ((dead & slot_v) == 2'b00);
            assert (state != `STEP_POP || job == `JOB_NOTIFY);
            assert (!searches || (\dut.engine.search.step <= 3'd5
                && \dut.engine.search.word <= \dut.engine.sources [9:6]));
            assert (at_rest || (fits && serves && (state != `STEP_CLAIM_ALSO || job == `JOB_CLAIM)
                && (flow != `FLOW_DETACH || state == `STEP_MAP || !slot_v[\dut.engine.hart ])));
        end
        if (begun) begin
            if (!at_rest) begin
                if (flow == `FLOW_PROBE)
                    assert (job == `JOB_MAP && \dut.engine.dom == operand[`XTL_HIFMAP_DOM]
                        && \dut.engine.vhart == operand[`XTL_HIFMAP_VHART]);
                if (\dut.engine.exists )
                    assert (job == `JOB_MAP);
                if (state == `STEP_MAP)
                    assert (own && (flow == `FLOW_PROBE || flow == `FLOW_DETACH));
                if (maps && (finds || state == `STEP_SET_STATE))
                    assert (own);
                if (flow == `FLOW_ATTACH && (finds || state == `STEP_SET_STATE))
                    assert (job == `JOB_MAP && (!slot_v[\dut.engine.who ]
                        || slot_is_operand[\dut.engine.who ]));
            end
            if (state == `STEP_START)
                assert (own && !\dut.engine.exists );
        end
`ifdef PROVE_slot
        if (begun_before)
            for (h = 0; h < HARTS; h = h + 1) begin
                // Domain and vhart of a slot change only while it is empty,
                if (slots_before[h] && slot_v[h])
                    assert (doms_before[16*h+:16] == \dut.slot_doms [16*h+:16]
                        && vharts_before[16*h+:16] == \dut.slot_vharts [16*h+:16]);
                // both at once, and to what the access to hifmap of this hart says.
                if (!slots_before[h] && slot_v[h])
                    assert (job_before == `JOB_MAP && hart_before == h
                        && \dut.slot_doms [16*h+:16] == operand_before[`XTL_HIFMAP_DOM]
                        && \dut.slot_vharts [16*h+:16] == operand_before[`XTL_HIFMAP_VHART]);
            end
`endif
`ifdef PROVE_claim
        if (begun) begin
            // What the induction needs: source 0 is never found.
            if (state == `STEP_SEARCH) begin
                if (\dut.engine.search.step >= 3'd2 && \dut.engine.search.step <= 3'd4
                        && \dut.engine.search.word == 4'd0)
                    assert (!\dut.engine.search.left [0]);
                if (\dut.engine.search.step >= 3'd2 && \dut.engine.search.step <= 3'd4)
                    assert (\dut.engine.search.left != 64'b0);
                if (\dut.engine.search.found )
                    assert (\dut.engine.search.source != 10'd0);
            end
            if (state == `STEP_SET_PENDING && flow == `FLOW_CLAIM)
                assert (\dut.engine.source [15:10] == 6'd0 && \dut.engine.source != 16'd0
                    && !\dut.engine.settle && job == `JOB_CLAIM);
            if ((!at_rest && flow == `FLOW_CLAIM) || state == `STEP_CLAIM_ALSO)
                assert (job == `JOB_CLAIM);
            if (state == `STEP_START)
                assert (!took && \dut.engine.data == 64'b0 && !\dut.engine.settle );
            if (state != `STEP_IDLE && job == `JOB_CLAIM) begin
                assert ((\dut.engine.data != 64'b0) == took);
                // It takes one at most: what is left is vsip.
                if (took)
                    assert (\dut.engine.data [63:10] == 54'b0 && (state == `STEP_FINISH
                        || (state == `STEP_SEARCH && flow == `FLOW_CLAIM
                            && \dut.engine.settle )));
            end
            // A claim is answered with a source if and only if the job has taken it; one that is to
            // be executed again has taken nothing.
            if (\dut.engine.answer && job == `JOB_CLAIM) begin
                assert (\dut.engine.answer_data && (\dut.engine.data != 64'b0) == took);
                assert (!took || !\dut.engine.answer_retry );
            end
            if (takes)
                assert (!took && mem_op == `MEM_MERGE && mem_wdata == 64'b0
                    && mem_mask == 64'd1 << \dut.engine.source [5:0]);
        end
`endif
`ifdef PROVE_post
        if (begun) begin
            // What a post leads to has been done when the job goes on to something else or ends.
            if (state == `STEP_FINISH || state == `STEP_CLAIM_ALSO || state == `STEP_MAP)
                assert (owed == NOTHING);
            // What the induction needs: the steps in which something is owed.
            case (owed)
                NOTHING: ;
                LOOKUP: assert (state == `STEP_GET_CTL
                    && (flow == `FLOW_EDGE || flow == `FLOW_ASSERT || flow == `FLOW_COMPLETE));
                DELIVERABLE: assert ((state == `STEP_GET_ENABLE || state == `STEP_GET_THRESHOLD)
                    && flow != `FLOW_THRESHOLD);
                POKE: assert (\dut.engine.who == owed_to && owed_to < HARTS
                    && (state == `STEP_LOOK || (flow == `FLOW_POKE && (finds
                        || state == `STEP_GET_CTL || state == `STEP_SEARCH))));
                MARK: assert (state == `STEP_MARK);
                default: assert (owed == TELL && (state == `STEP_CHOOSE || state == `STEP_PUSH));
            endcase
        end
`endif
`ifdef PROVE_port
        // A request to memory stays as it is until it is answered.
        if (begun && waits_before)
            assert (mem_req && op_before == mem_op && mem_hart_before == mem_hart
                && addr_before == mem_addr && mask_before == mem_mask
                && wdata_before == mem_wdata);
`endif
`ifdef PROVE_reset
        // A hart that has been reset has nothing of before, whatever job of then goes on (ACC-4).
        if (begun && !begun_before)
            assert (state == `STEP_IDLE);
        if (begun)
            for (h = 0; h < HARTS; h = h + 1) begin
                if (begun_before && queue_due[h])
                    assert (dead[h] && \dut.engine.who == h
                        && (state == `STEP_PUSH || state == `STEP_POP));
                if (begun_before && tables_due[h])
                    assert (dead[h] && \dut.engine.who == h && state == `STEP_FIND_DOMAIN);
                if (fresh[h]) begin
                    assert (units[2*h+:2] == 2'd0 && !has_posts[h] && (state == `STEP_IDLE || dead[h]
                        || \dut.engine.hart != h));
                    assert (!slot_v[h] && !enabled[h] && !faults[h] && grants[64*h+:64] == 64'b0
                        && queue_bases[64*h+:64] == 64'b0 && !notify[h]
                        && (!\dut.tables_vs [h] || tables_due[h]));
                end
            end
`endif
`ifdef PROVE_ends
        if (begun && steps_before)
            assert (far > far_before);
`endif
`ifdef PROVE_isolation
        if (begun) begin
            if (!at_rest && state != `STEP_LOOK && state != `STEP_MAP && state != `STEP_CLAIM_ALSO
                    && state != `STEP_CHOOSE && state != `STEP_PUSH)
                assert (\dut.engine.dom == domain);
            if (\dut.engine_req && state == `STEP_FIND_DOMAIN)
                assert (\dut.mem_base == base_now && \dut.mem_word == {domain, 2'b00});
            // What the induction needs: the tables are those of the domain.
            if (state == `STEP_FIND_FILE || state == `STEP_FIND_SOURCE || state == `STEP_FIND_LINES
                    || searches || in_file || in_lines)
                assert (\dut.engine.entry == its_entry);
            if (state == `STEP_FIND_FILE && \dut.engine.walk.second )
                assert (\dut.engine.walk.table_at == its_vharts);
            if (searches || in_file)
                assert (\dut.engine.file == its_file);
            if (in_lines)
                assert (\dut.engine.lines == its_lines);
            if (state == `STEP_MAP && flow == `FLOW_PROBE && \dut.engine.exists )
                assert (\dut.engine.entry == its_entry && \dut.engine.file == its_file);
            if (state == `STEP_MAP && flow == `FLOW_PROBE)
                assert (\dut.engine.dom == domain);
            if (finds && flow == `FLOW_PROBE)
                assert (!\dut.engine.exists );
            if (state == `STEP_START)
                assert (\dut.engine.dom == \dut.engine.posted [31:16]);
            // Accesses lead through them, and stay in the file and the lines.
            if (\dut.engine_req && state == `STEP_FIND_FILE)
                assert (\dut.engine.walk.second ? \dut.mem_base == its_vharts
                    && \dut.mem_word == {2'b00, \dut.engine.vhart }
                    : \dut.mem_base == its_entry && \dut.mem_word < 18'd4);
            if (in_file)
                assert (\dut.mem_base == its_file && \dut.mem_word < `XTL_FILE_SIZE / 8);
            if (in_lines)
                assert (\dut.mem_base == its_lines && \dut.mem_word < 18'd32);
            // Nothing else is stored to, but the queue.
            if (\dut.engine_req && mem_op != 2'd0)
                assert (in_file || in_lines || state == `STEP_PUSH);
        end
`endif
    end
endmodule
