// SPDX-License-Identifier: Apache-2.0 OR MIT
// The engine that all harts share: posts, lookups, pokes, notifications, attach and detach, claims.
//
// It carries out one job after the other, each as a whole, so that the total order of ORD-1 is that
// of its accesses to memory, and ORD-2 to ORD-7 and ORD-14 to ORD-17 are the order of its steps.
// The file is the directory (DEL-5): a lookup reads CTL, and a hit concerns the one hart that it
// names. A job may be a post, a lookup and the poke that follows; none searches through harts but
// for a queue that is open.
//
// An access is answered when its effects on the hart itself are complete (CSR-2): a poke of another
// hart goes on afterwards.

`include "generated/xtrapless.vh"
`include "port.vh"
`include "engine.vh"

module xtrapless_engine #(
    parameter HARTS = 4,
    parameter BITS = 2     // log2 of HARTS, rounded up, at least 1
) (
    input  wire             clk,
    input  wire             reset,

    // The job that is next, of hart `next_hart`.
    input  wire             next_valid,
    input  wire [BITS-1:0]  next_hart,
    input  wire [3:0]       next_job,
    input  wire [2:0]       next_op,
    input  wire [63:0]      next_operand,
    input  wire [15:0]      next_dom,     // of a post
    input  wire [15:0]      next_vhart,
    output wire             take,

    // Of the hart that causes the job, and of the one whose slot, tables or queue are used.
    output reg  [BITS-1:0]  hart,
    output reg  [BITS-1:0]  who,
    input  wire             en,           // htlcfg.EN and ANY of `hart`
    input  wire             any,
    input  wire             withdraw,
    input  wire             slot_v,       // of `who`, as what follows
    input  wire [15:0]      slot_dom,
    input  wire [15:0]      slot_vhart,
    input  wire             tables_v,
    input  wire [43:0]      tables_ppn,
    input  wire [4:0]       tables_size,
    input  wire             queue_full,
    input  wire             queue_empty,
    input  wire             queue_lost,
    input  wire [52:0]      queue_address,
    input  wire [HARTS-1:0] queues_open,

    // What happens to `hart`,
    output wire             busy,
    output reg              answer,
    output reg              answer_data,
    output reg              answer_retry,
    output reg              answer_early,
    output wire             job_end,
    output wire             job_post,
    output wire [31:0]      job_target,
    output reg  [63:0]      data,
    output wire             fail,
    output reg              write,
    // and to `who`.
    output reg              slot_write,
    output reg              slot_value,
    output reg  [1:0]       terms_change,
    output reg  [1:0]       terms_value,
    output reg              poke,
    output reg              queue_push,
    output reg              queue_pop,
    output reg              queue_overflow,
    output reg              queue_report,
    output wire             tables_hold,
    output wire             queue_hold,
    output wire             queue_head,
    output wire [31:0]      slot_new,     // domain and vhart that are attached
    output reg              send,         // sip.SSIP of the harts that the operand names
    output wire [47:0]      send_operand,

    output wire             mem_req,
    output wire [1:0]       mem_op,
    output wire [60:0]      mem_base,
    output wire [17:0]      mem_word,
    output wire [63:0]      mem_mask,
    output wire [63:0]      mem_wdata,
    input  wire [60:0]      mem_address,
    input  wire             mem_ack,
    input  wire             mem_err,
    input  wire [63:0]      mem_rdata
);
    reg [4:0]  state;
    reg [3:0]  flow;
    reg [3:0]  job;
    reg [2:0]  op;
    reg [63:0] operand;
    reg [15:0] dom;
    reg [15:0] vhart;
    reg [15:0] source;
    reg [15:0] near;        // Hart that a notification is for
    reg [1:0]  kind;
    reg [1:0]  leave;       // STATE that a detach leaves the vhart in
    reg        soft;        // SOFT of the file that is read
    reg        answered;
    reg        failed;
    reg        in_turn;     // The notification goes to any queue (DEL-10).
    reg        settle;      // A search is what vsip of `hart` waits for.
    reg        exists;      // What is to be attached exists.
    reg [BITS-1:0] turn;
    reg [31:0] posted;      // Domain and vhart of a post, for the trace

    // Operand, by CSR.
    wire [3:0]  generate_op = operand[`XTL_HGENVSI_OP];
    wire        reads = op == `PORT_READ || op == `PORT_SWAP;
    wire        writes = op == `PORT_WRITE || op == `PORT_SWAP;
    // Bit of the source in a word, as it was before an atomic operation.
    wire        was_set = mem_rdata[source[5:0]];
    wire        soft_written = flow == `FLOW_SOFT || op == `PORT_SET
        || (op != `PORT_CLEAR && operand[1]);

    // Fields of CTL, as it was before an atomic operation.
    wire [1:0]  ctl_state = mem_rdata[`XTL_FILE_CTL_STATE];
    wire [15:0] ctl_hart = mem_rdata[`XTL_FILE_CTL_HART];
    wire        ctl_on = mem_rdata[`XTL_FILE_CTL_ON];
    wire        ctl_soft = mem_rdata[`XTL_FILE_CTL_SOFT];
    wire        loaded = ctl_state == `XTL_STATE_LOADED;
    // DEL-9
    wire        wanted = (ctl_state == `XTL_STATE_HALTED || ctl_state == `XTL_STATE_PREEMPTED)
        && !ctl_on;
    wire        hart_exists = {16'b0, ctl_hart} < HARTS;

    // Tables.
    reg  [2:0]  walk_command;
    wire        walk_done;
    wire        walk_ok;
    wire [60:0] entry;
    wire [9:0]  sources;
    wire [60:0] file;
    wire [60:0] lines;
    wire        resample;
    wire        level;
    wire [2:0]  prio;
    wire [15:0] affinity;
    wire        walk_req;
    wire [60:0] walk_base;
    wire [17:0] walk_word;

    xtrapless_walk walk (
        .clk(clk), .reset(reset), .command(walk_command), .tables_v(tables_v),
        .tables_ppn(tables_ppn), .tables_size(tables_size), .dom(dom), .vhart(vhart),
        .source(source), .done(walk_done), .ok(walk_ok), .entry(entry), .sources(sources),
        .file(file), .lines(lines), .resample(resample), .level(level), .prio(prio),
        .affinity(affinity), .mem_req(walk_req), .mem_base(walk_base), .mem_word(walk_word),
        .mem_address(mem_address), .mem_ack(mem_ack), .mem_err(mem_err), .mem_rdata(mem_rdata));

    always @* begin
        case (state)
            `STEP_FIND_DOMAIN: walk_command = 3'd1;
            `STEP_FIND_FILE: walk_command = 3'd2;
            `STEP_FIND_SOURCE: walk_command = 3'd3;
            `STEP_FIND_LINES: walk_command = 3'd4;
            default: walk_command = 3'd0;
        endcase
    end

    // The search for deliverable sources.
    wire        search_done;
    wire        search_found;
    wire [9:0]  search_source;
    wire        search_more;
    wire        search_whole;
    wire        search_req;
    wire [60:0] search_base;
    wire [9:0]  search_word;
    // A claim needs the most urgent one, unless it has been made and only vsip is left.
    wire        claiming = flow == `FLOW_CLAIM && !settle;

    xtrapless_search search (
        .clk(clk), .run(state == `STEP_SEARCH), .first(!claiming), .entry(entry), .sources(sources),
        .file(file), .done(search_done), .found(search_found), .source(search_source),
        .more(search_more), .whole(search_whole), .mem_req(search_req),
        .mem_base(search_base), .mem_word(search_word), .mem_ack(mem_ack), .mem_err(mem_err),
        .mem_rdata(mem_rdata));

    reg more;
    reg whole;

    // The queue of a notification (DEL-10, DEL-11): near, or the first that is open.
    wire            some_open;
    wire [BITS-1:0] first_open;
    wire            near_open = {16'b0, near} < HARTS && queues_open[near[BITS-1:0]];
    xtrapless_turn #(.WIDTH(HARTS), .BITS(BITS)) queues (
        .bits(queues_open), .start(in_turn ? turn : {BITS{1'b0}}), .some(some_open),
        .index(first_open));
    // Its hart may have been reset since it was chosen, which would have lost the entry, too.
    wire            closed = !queues_open[who];
    wire            no_place = closed || queue_full;
    wire [BITS-1:0] chosen = in_turn || !near_open ? first_open : near[BITS-1:0];

    assign take = state == `STEP_IDLE && next_valid;
    assign busy = state != `STEP_IDLE;
    assign job_end = state == `STEP_FINISH;
    assign job_post = job == `JOB_POST;
    assign job_target = posted;
    assign fail = state == `STEP_FINISH && failed;
    assign queue_head = state == `STEP_POP;
    assign tables_hold = state == `STEP_FIND_DOMAIN && mem_req && !mem_ack;
    assign queue_hold = (state == `STEP_PUSH || state == `STEP_POP) && mem_req && !mem_ack;
    assign slot_new = {operand[`XTL_HIFMAP_DOM], operand[`XTL_HIFMAP_VHART]};
    assign send_operand = operand[47:0];

    xtrapless_access access (
        .state(state), .flow(flow), .op(op), .operand(operand), .source(source), .leave(leave),
        .hart({{(16 - BITS){1'b0}}, hart}), .kind(kind), .dom(dom), .vhart(vhart), .file(file),
        .lines(lines), .walk_req(walk_req), .walk_base(walk_base), .walk_word(walk_word),
        .search_req(search_req), .search_base(search_base), .search_word(search_word),
        .queue_full(no_place), .queue_empty(queue_empty), .queue_address(queue_address),
        .soft(soft_written), .mem_req(mem_req), .mem_op(mem_op), .mem_base(mem_base),
        .mem_word(mem_word), .mem_mask(mem_mask), .mem_wdata(mem_wdata));

    // What a step does to harts. The steps themselves are below.
    wire last_step = state == `STEP_FINISH;
    // A hit of another hart: the poke needs nothing of the hart that causes it.
    wire poke_other = state == `STEP_LOOK && who != hart && !(job == `JOB_CLAIM && reads);
    // An interrupt is pending: the claim is given up (EXT-11).
    wire boundary = mem_ack || !mem_req;
    wire give_up = state == `STEP_SEARCH && claiming && withdraw && boundary && !search_done;
    wire leave_search = state == `STEP_SEARCH && settle && withdraw;

    always @* begin
        answer = 1'b0;
        answer_retry = 1'b0;
        answer_early = 1'b0;
        write = 1'b0;
        send = 1'b0;
        if (!answered && job != `JOB_POST) begin
            if (last_step || poke_other)
                answer = 1'b1;
            else if (leave_search) begin
                answer = 1'b1;
                answer_early = 1'b1;
            end else if (give_up) begin
                answer = 1'b1;
                // What has been completed must not be completed again.
                answer_retry = !writes;
            end
        end
        if (last_step) begin
            write = job == `JOB_CONFIG || job == `JOB_QUEUE || job == `JOB_TABLES;
            send = job == `JOB_SEND;
        end
        answer_data = job == `JOB_CLAIM || job == `JOB_THRESHOLD || job == `JOB_NOTIFY
            || job == `JOB_SSIP;
    end

    always @* begin
        slot_write = 1'b0;
        slot_value = 1'b0;
        terms_change = 2'b00;
        terms_value = 2'b00;
        poke = 1'b0;
        queue_push = 1'b0;
        queue_pop = 1'b0;
        queue_overflow = 1'b0;
        queue_report = 1'b0;
        case (state)
            `STEP_MAP: if (flow == `FLOW_DETACH && slot_v) begin  // D1
                slot_write = 1'b1;
                terms_change = 2'b11;
            end
            `STEP_SET_STATE: if (flow == `FLOW_ATTACH && mem_ack) begin
                slot_write = 1'b1;
                slot_value = !mem_err;  // A1; else SLOT-2
                terms_change = {2{mem_err}};
            end
            `STEP_SET_SOFT: if (flow == `FLOW_SSIP && mem_ack && !mem_err) begin
                terms_change = 2'b01;
                terms_value = {1'b0, soft_written};
            end
            `STEP_FIND_DOMAIN, `STEP_FIND_FILE:
                if (walk_done && !walk_ok && (flow == `FLOW_POKE || flow == `FLOW_CLAIM))
                    terms_change = 2'b11;
            `STEP_SEARCH: if (search_done) begin
                case (flow)
                    `FLOW_POKE, `FLOW_ATTACH: begin
                        terms_change = 2'b11;
                        terms_value = {search_found, soft};
                        poke = flow == `FLOW_POKE;
                    end
                    `FLOW_ENABLE, `FLOW_THRESHOLD: begin
                        terms_change = 2'b10;
                        terms_value = {search_found, 1'b0};
                    end
                    `FLOW_CLAIM: if (settle || !search_found) begin
                        terms_change = 2'b10;
                        terms_value = {search_found, 1'b0};
                    end
                    default: ;
                endcase
            end
            `STEP_SET_PENDING:
                if (flow == `FLOW_CLAIM && mem_ack && !mem_err && was_set) begin
                    terms_change = {more || whole, 1'b0};
                    terms_value = {more, 1'b0};
                end
            `STEP_PUSH: begin
                queue_push = mem_ack && !mem_err;
                queue_overflow = !closed && (queue_full || (mem_ack && mem_err));
            end
            `STEP_POP: begin
                queue_pop = mem_ack;
                queue_report = queue_empty || mem_ack;
            end
            default: ;
        endcase
    end

    // The job is about a source and its line.
    wire drives = flow == `FLOW_EDGE || flow == `FLOW_ASSERT || flow == `FLOW_DEASSERT
        || flow == `FLOW_COMPLETE;

    // What follows a part of a job: the claim after a completion, the attach after a detach.
    wire [4:0] after = job == `JOB_CLAIM && flow != `FLOW_CLAIM && reads ? `STEP_CLAIM_ALSO
                     : flow == `FLOW_DETACH ? `STEP_MAP : `STEP_FINISH;

    task part_over;
        begin
            state <= after;
            who <= hart;
        end
    endtask

    // A hit, or a miss: `miss` is for one that somebody wants to hear of.
    task look_up;
        input [4:0] miss;
        begin
            if (loaded && hart_exists) begin
                who <= ctl_hart[BITS-1:0];
                state <= `STEP_LOOK;
            end else if (wanted)
                state <= miss;
            else
                part_over;
        end
    endtask

    always @(posedge clk) begin
        if (reset) begin
            state <= `STEP_IDLE;
            turn <= {BITS{1'b0}};
            answered <= 1'b0;
            failed <= 1'b0;
        end else begin
            if (answer)
                answered <= 1'b1;
            if (mem_ack && mem_err)
                failed <= 1'b1;
            case (state)
                `STEP_IDLE: begin
                    job <= next_job;
                    op <= next_op;
                    operand <= next_operand;
                    hart <= next_hart;
                    who <= next_hart;
                    dom <= next_dom;
                    vhart <= next_vhart;
                    answered <= 1'b0;
                    failed <= 1'b0;
                    settle <= 1'b0;
                    exists <= 1'b0;
                    in_turn <= 1'b0;
                    data <= 64'b0;
                    posted <= {next_dom, next_vhart};
                    if (next_valid)
                        state <= `STEP_START;
                end
                `STEP_START: begin
                    state <= `STEP_FIND_DOMAIN;
                    source <= operand[15:0];  // ID of all operands
                    // SLOT-7
                    leave <= job == `JOB_CONFIG || operand[`XTL_HIFMAP_STATE] == `XTL_STATE_LOADED
                        ? `XTL_STATE_PREEMPTED : operand[`XTL_HIFMAP_STATE];
                    if (job != `JOB_POST) begin
                        dom <= slot_dom;
                        vhart <= slot_vhart;
                    end
                    case (job)
                        `JOB_POST: flow <= `FLOW_SOFT;
                        `JOB_GENERATE: begin
                            dom <= operand[`XTL_HGENVSI_DOM];
                            vhart <= operand[`XTL_HGENVSI_ID];
                            case (generate_op)
                                `XTL_OP_EDGE: flow <= `FLOW_EDGE;
                                `XTL_OP_ASSERT: flow <= `FLOW_ASSERT;
                                `XTL_OP_DEASSERT: flow <= `FLOW_DEASSERT;
                                `XTL_OP_SOFT: flow <= `FLOW_SOFT;
                                `XTL_OP_EVAL: flow <= `FLOW_EVAL;
                                default: state <= `STEP_FINISH;
                            endcase
                        end
                        `JOB_CLAIM: flow <= writes ? `FLOW_COMPLETE : `FLOW_CLAIM;
                        `JOB_ENABLE: flow <= `FLOW_ENABLE;
                        `JOB_THRESHOLD: flow <= `FLOW_THRESHOLD;
                        `JOB_SSIP: flow <= `FLOW_SSIP;
                        `JOB_MAP:
                            if (operand[`XTL_HIFMAP_V]) begin
                                flow <= `FLOW_PROBE;
                                dom <= operand[`XTL_HIFMAP_DOM];
                                vhart <= operand[`XTL_HIFMAP_VHART];
                                if (!en)
                                    state <= `STEP_MAP;
                            end else begin
                                flow <= `FLOW_DETACH;
                                state <= `STEP_MAP;
                            end
                        `JOB_CONFIG: begin
                            flow <= `FLOW_DETACH;
                            state <= operand[`XTL_HTLCFG_EN] ? `STEP_FINISH : `STEP_MAP;
                        end
                        `JOB_NOTIFY: state <= `STEP_POP;
                        default: state <= `STEP_FINISH;
                    endcase
                end

                `STEP_FIND_DOMAIN: if (walk_done) begin
                    if (!walk_ok && flow == `FLOW_PROBE)
                        state <= `STEP_MAP;
                    else if (!walk_ok)
                        part_over;
                    else
                        state <= drives ? `STEP_FIND_SOURCE : `STEP_FIND_FILE;
                end
                `STEP_FIND_SOURCE: if (walk_done) begin
                    vhart <= mem_rdata[`XTL_SOURCE_ENTRY_VHART];
                    if (!walk_ok)
                        part_over;
                    else if (flow == `FLOW_EDGE)
                        state <= `STEP_FIND_FILE;
                    else if (flow != `FLOW_COMPLETE || mem_rdata[`XTL_SOURCE_ENTRY_RESAMPLE]
                            || mem_rdata[`XTL_SOURCE_ENTRY_LEVEL])
                        state <= `STEP_FIND_LINES;
                    else
                        part_over;  // EXT-9
                end
                `STEP_FIND_LINES: if (walk_done) begin
                    if (walk_ok)
                        state <= flow == `FLOW_COMPLETE && !resample ? `STEP_GET_LINE
                            : `STEP_SET_LINE;
                    else
                        part_over;
                end
                `STEP_FIND_FILE: if (walk_done) begin
                    if (flow == `FLOW_PROBE) begin
                        exists <= walk_ok;
                        state <= `STEP_MAP;
                    end else if (!walk_ok)
                        part_over;
                    else
                        case (flow)
                            `FLOW_SOFT, `FLOW_SSIP: state <= `STEP_SET_SOFT;
                            `FLOW_EVAL, `FLOW_POKE: state <= `STEP_GET_CTL;
                            `FLOW_CLAIM: state <= `STEP_SEARCH;
                            `FLOW_ENABLE:
                                if (source != 16'd0 && source <= {6'b0, sources})
                                    state <= `STEP_SET_ENABLE;
                                else
                                    part_over;
                            `FLOW_THRESHOLD:
                                state <= op == `PORT_READ ? `STEP_GET_THRESHOLD
                                    : `STEP_SET_THRESHOLD;
                            `FLOW_ATTACH, `FLOW_DETACH: state <= `STEP_SET_STATE;
                            default: state <= `STEP_SET_PENDING;
                        endcase
                end

                `STEP_SET_LINE: if (mem_ack) begin
                    if (mem_err)
                        part_over;
                    else if (flow == `FLOW_COMPLETE)
                        state <= `STEP_SET_RESAMPLE;  // EXT-7
                    else if (flow == `FLOW_ASSERT ? !was_set : level)
                        state <= `STEP_FIND_FILE;
                    else
                        part_over;
                end
                `STEP_SET_RESAMPLE: if (mem_ack) begin
                    kind <= `XTL_KIND_RESAMPLE;
                    near <= {{(16 - BITS){1'b0}}, hart};
                    if (!mem_err && !was_set)
                        state <= `STEP_CHOOSE;
                    else
                        part_over;
                end
                `STEP_GET_LINE: if (mem_ack) begin  // EXT-8
                    if (!mem_err && was_set)
                        state <= `STEP_FIND_FILE;
                    else
                        part_over;
                end

                `STEP_SET_SOFT: if (mem_ack) begin
                    data[1] <= ctl_soft && !mem_err;
                    if (mem_err || flow == `FLOW_SSIP)
                        part_over;
                    else
                        look_up(`STEP_MARK);
                end
                `STEP_SET_PENDING: if (mem_ack) begin
                    if (flow == `FLOW_CLAIM) begin
                        settle <= mem_err || was_set;
                        state <= `STEP_SEARCH;
                        if (!mem_err && was_set) begin
                            data[9:0] <= source[9:0];
                            if (more || whole)
                                part_over;
                        end
                    end else if (mem_err
                            || (flow == `FLOW_DEASSERT && !was_set))
                        part_over;
                    else
                        state <= `STEP_GET_CTL;
                end
                `STEP_SET_ENABLE: if (mem_ack) begin
                    settle <= 1'b1;
                    state <= `STEP_SEARCH;
                end
                `STEP_SET_THRESHOLD: if (mem_ack) begin
                    data[`XTL_VSTHRESHOLD_PRIO] <= mem_err ? 3'd0
                        : mem_rdata[`XTL_VSTHRESHOLD_PRIO];
                    settle <= 1'b1;
                    state <= `STEP_SEARCH;
                end
                `STEP_SET_STATE: if (mem_ack) begin  // A2, D2
                    soft <= ctl_soft;
                    if (mem_err)
                        part_over;
                    else if (flow == `FLOW_ATTACH)
                        state <= `STEP_SEARCH;
                    else if (leave == `XTL_STATE_HALTED && !ctl_on)
                        state <= ctl_soft ? `STEP_MARK : `STEP_SEARCH;
                    else
                        part_over;
                end

                `STEP_GET_CTL: if (mem_ack) begin
                    soft <= ctl_soft && !mem_err;
                    if (flow == `FLOW_POKE)
                        state <= `STEP_SEARCH;
                    else if (mem_err)
                        part_over;
                    else
                        case (flow)
                            `FLOW_EVAL: look_up(ctl_soft ? `STEP_MARK : `STEP_SEARCH);
                            `FLOW_DEASSERT: begin
                                if (loaded)
                                    look_up(`STEP_FINISH);
                                else
                                    part_over;
                            end
                            default: look_up(`STEP_GET_ENABLE);
                        endcase
                end
                `STEP_GET_ENABLE: if (mem_ack) begin  // E, DEL-8
                    if (!mem_err && was_set)
                        state <= `STEP_GET_THRESHOLD;
                    else
                        part_over;
                end
                `STEP_GET_THRESHOLD: if (mem_ack) begin
                    if (flow == `FLOW_THRESHOLD) begin
                        data[`XTL_VSTHRESHOLD_PRIO] <= mem_err ? 3'd0
                            : mem_rdata[`XTL_VSTHRESHOLD_PRIO];
                        part_over;
                    end else if (!mem_err && prio > mem_rdata[`XTL_VSTHRESHOLD_PRIO])
                        state <= `STEP_MARK;
                    else
                        part_over;
                end

                `STEP_SEARCH: begin
                    if (search_done) begin
                        more <= search_more;
                        whole <= search_whole;
                        if (claiming && search_found) begin
                            source <= {6'b0, search_source};
                            state <= `STEP_SET_PENDING;
                        end else if ((flow == `FLOW_EVAL || flow == `FLOW_DETACH) && search_found)
                            state <= `STEP_MARK;
                        else
                            part_over;
                    end else if (give_up)
                        part_over;
                end

                `STEP_MARK: if (mem_ack) begin  // N1, DEL-9
                    kind <= ctl_state == `XTL_STATE_HALTED ? `XTL_KIND_WAKE : `XTL_KIND_YIELD;
                    near <= ctl_hart;
                    in_turn <= any;
                    if (!mem_err && wanted)
                        state <= `STEP_CHOOSE;
                    else
                        part_over;
                end
                `STEP_CHOOSE: begin
                    who <= chosen;
                    if (some_open)
                        state <= `STEP_PUSH;
                    else
                        part_over;
                    if (some_open && in_turn)
                        turn <= {{(32 - BITS){1'b0}}, chosen} == HARTS - 1 ? {BITS{1'b0}}
                            : chosen + 1'b1;
                end
                `STEP_PUSH: if (no_place || mem_ack)  // N2
                    part_over;
                `STEP_POP: if (queue_empty || mem_ack) begin  // NTF-4, NTF-5
                    state <= `STEP_FINISH;
                    if (!queue_empty && !mem_err)
                        data <= (mem_rdata & `XTL_HNOTIFY_FIELDS) | (64'd1 << `XTL_HNOTIFY_V);
                    data[`XTL_HNOTIFY_OVF] <= queue_lost || (!queue_empty && mem_err);
                end

                `STEP_LOOK: begin
                    flow <= `FLOW_POKE;
                    dom <= slot_dom;
                    vhart <= slot_vhart;
                    if (slot_v)
                        state <= `STEP_FIND_DOMAIN;
                    else
                        part_over;
                end
                `STEP_MAP: begin
                    if (flow == `FLOW_PROBE) begin
                        if (slot_v && !(exists && slot_dom == dom && slot_vhart == vhart)) begin
                            flow <= `FLOW_DETACH;  // SLOT-1, SLOT-2
                            leave <= `XTL_STATE_PREEMPTED;
                        end else if (exists) begin
                            flow <= `FLOW_ATTACH;
                            state <= `STEP_SET_STATE;
                        end else
                            state <= `STEP_FINISH;
                    end else if (slot_v) begin
                        dom <= slot_dom;
                        vhart <= slot_vhart;
                        state <= `STEP_FIND_DOMAIN;
                    end else if (exists) begin
                        flow <= `FLOW_ATTACH;
                        dom <= operand[`XTL_HIFMAP_DOM];
                        vhart <= operand[`XTL_HIFMAP_VHART];
                        state <= `STEP_FIND_DOMAIN;
                    end else
                        state <= `STEP_FINISH;
                end
                `STEP_CLAIM_ALSO: begin
                    flow <= `FLOW_CLAIM;
                    dom <= slot_dom;
                    vhart <= slot_vhart;
                    state <= `STEP_FIND_DOMAIN;
                end
                default: state <= `STEP_IDLE;  // FINISH
            endcase
        end
    end

    wire unused = &{1'b0, affinity, operand[59:48], 1'b0};
endmodule
