// SPDX-License-Identifier: Apache-2.0 OR MIT
// The engine that all harts share: posts, lookups, pokes, notifications, attach and detach, claims.
//
// It carries out one job after the other, each as a whole, so that the total order of ORD-1 is that
// of its accesses to memory, and ORD-2 to ORD-7 and ORD-14 to ORD-17 are the order of its steps. The
// file is the directory (DEL-5): a lookup reads CTL, and a hit concerns the one hart that it names.
// A job may be a post, a lookup and the poke that follows; none searches through harts but for a
// queue that is open.
//
// An access is answered when its effects on the hart itself are complete (CSR-2): a poke of another
// hart goes on afterwards.

`include "generated/xtrapless.vh"
`include "port.vh"

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
    output wire             queue_head,
    output wire [31:0]      slot_new,     // domain and vhart that are attached
    output reg              send,         // sip.SSIP of the harts that the operand names
    output wire [47:0]      send_operand,

    output reg              mem_req,
    output reg  [1:0]       mem_op,
    output reg  [60:0]      mem_base,
    output reg  [17:0]      mem_word,
    output reg  [63:0]      mem_mask,
    output reg  [63:0]      mem_wdata,
    input  wire [60:0]      mem_address,
    input  wire             mem_ack,
    input  wire             mem_err,
    input  wire [63:0]      mem_rdata
);
    // What the job is about at the moment.
    localparam [3:0] SOFT = 4'd0;       // DEL-1
    localparam [3:0] EVAL = 4'd1;       // DEL-12
    localparam [3:0] EDGE = 4'd2;       // DEL-2
    localparam [3:0] ASSERT = 4'd3;
    localparam [3:0] DEASSERT = 4'd4;
    localparam [3:0] COMPLETE = 4'd5;   // EXT-6 to EXT-9
    localparam [3:0] CLAIM = 4'd6;      // EXT-3
    localparam [3:0] ENABLE = 4'd7;
    localparam [3:0] THRESHOLD = 4'd8;
    localparam [3:0] SSIP = 4'd9;       // BIT-4
    localparam [3:0] PROBE = 4'd10;     // SLOT-2: is there what is to be attached?
    localparam [3:0] ATTACH = 4'd11;    // SLOT-3
    localparam [3:0] DETACH = 4'd12;    // SLOT-6
    localparam [3:0] POKE = 4'd13;      // DEL-6

    localparam [4:0] IDLE = 5'd0;
    localparam [4:0] START = 5'd1;
    localparam [4:0] FIND_DOMAIN = 5'd2;
    localparam [4:0] FIND_FILE = 5'd3;
    localparam [4:0] FIND_SOURCE = 5'd4;
    localparam [4:0] FIND_LINES = 5'd5;
    localparam [4:0] SET_SOFT = 5'd6;
    localparam [4:0] SET_PENDING = 5'd7;   // or clear it
    localparam [4:0] SET_LINE = 5'd8;      // or clear it
    localparam [4:0] SET_RESAMPLE = 5'd9;
    localparam [4:0] SET_ENABLE = 5'd10;
    localparam [4:0] SET_THRESHOLD = 5'd11;
    localparam [4:0] SET_STATE = 5'd12;
    localparam [4:0] GET_CTL = 5'd13;
    localparam [4:0] GET_ENABLE = 5'd14;
    localparam [4:0] GET_THRESHOLD = 5'd15;
    localparam [4:0] GET_LINE = 5'd16;
    localparam [4:0] SEARCH = 5'd17;
    localparam [4:0] MARK = 5'd18;
    localparam [4:0] CHOOSE = 5'd19;
    localparam [4:0] PUSH = 5'd20;
    localparam [4:0] POP = 5'd21;
    localparam [4:0] LOOK = 5'd22;         // at the slot of the hart that is poked
    localparam [4:0] MAP = 5'd23;          // The attach or detach goes on.
    localparam [4:0] CLAIM_ALSO = 5'd24;   // The completion is over.
    localparam [4:0] FINISH = 5'd25;

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
    wire [63:0] bit_of_source = 64'd1 << source[5:0];
    wire [3:0]  word_of_source = source[9:6];

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
            FIND_DOMAIN: walk_command = 3'd1;
            FIND_FILE: walk_command = 3'd2;
            FIND_SOURCE: walk_command = 3'd3;
            FIND_LINES: walk_command = 3'd4;
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
    wire        claiming = flow == CLAIM && !settle;

    xtrapless_search search (
        .clk(clk), .run(state == SEARCH), .first(!claiming), .entry(entry), .sources(sources),
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
    wire [BITS-1:0] chosen = in_turn || !near_open ? first_open : near[BITS-1:0];

    assign take = state == IDLE && next_valid;
    assign busy = state != IDLE;
    assign job_end = state == FINISH;
    assign job_post = job == `JOB_POST;
    assign job_target = posted;
    assign fail = state == FINISH && failed;
    assign queue_head = state == POP;
    assign slot_new = {operand[`XTL_HIFMAP_DOM], operand[`XTL_HIFMAP_VHART]};
    assign send_operand = operand[47:0];

    // Accesses to memory.
    always @* begin
        mem_req = 1'b0;
        mem_op = `MEM_MERGE;
        mem_base = file;
        mem_word = `XTL_FILE_CTL / 8;
        mem_mask = 64'b0;
        mem_wdata = 64'b0;
        case (state)
            FIND_DOMAIN, FIND_FILE, FIND_SOURCE, FIND_LINES: begin
                mem_req = walk_req;
                mem_op = `MEM_LOAD;
                mem_base = walk_base;
                mem_word = walk_word;
            end
            SEARCH: begin
                mem_req = search_req;
                mem_op = `MEM_LOAD;
                mem_base = search_base;
                mem_word = {8'b0, search_word};
            end
            SET_SOFT: begin
                mem_req = 1'b1;
                mem_mask[`XTL_FILE_CTL_SOFT] = 1'b1;
                mem_wdata[`XTL_FILE_CTL_SOFT] = flow == SOFT || op == `PORT_SET
                    || (op != `PORT_CLEAR && operand[1]);
            end
            SET_STATE: begin
                mem_req = 1'b1;
                mem_mask[`XTL_FILE_CTL_STATE] = 2'b11;
                mem_wdata[`XTL_FILE_CTL_STATE] = flow == ATTACH ? `XTL_STATE_LOADED : leave;
                if (flow == ATTACH) begin
                    mem_mask[`XTL_FILE_CTL_HART] = 16'hffff;
                    mem_wdata[`XTL_FILE_CTL_HART] = {{(16 - BITS){1'b0}}, hart};
                end
            end
            SET_PENDING: begin
                mem_req = 1'b1;
                mem_word = `XTL_FILE_PENDING / 8 + {13'b0, word_of_source, 1'b0};
                mem_mask = bit_of_source;
                mem_wdata = flow == CLAIM || flow == DEASSERT ? 64'b0 : bit_of_source;
            end
            SET_ENABLE: begin
                mem_req = 1'b1;
                mem_word = `XTL_FILE_ENABLE / 8 + {13'b0, word_of_source, 1'b0};
                mem_mask = bit_of_source;
                mem_wdata = operand[`XTL_VSENABLE_E] ? bit_of_source : 64'b0;
            end
            SET_THRESHOLD: begin
                mem_req = 1'b1;
                mem_word = `XTL_FILE_THRESHOLD / 8;
                mem_mask[`XTL_VSTHRESHOLD_PRIO] = writes ? 3'd7 : operand[`XTL_VSTHRESHOLD_PRIO];
                mem_wdata[`XTL_VSTHRESHOLD_PRIO] = op == `PORT_CLEAR ? 3'd0
                    : operand[`XTL_VSTHRESHOLD_PRIO];
            end
            SET_LINE, SET_RESAMPLE: begin
                mem_req = 1'b1;
                mem_base = lines;
                mem_word = {14'b0, word_of_source};
                if (state == SET_RESAMPLE)
                    mem_word = {14'b0, word_of_source} + (`XTL_MAX_SOURCES + 1) / 64;
                mem_mask = bit_of_source;
                mem_wdata = flow == ASSERT || state == SET_RESAMPLE ? bit_of_source : 64'b0;
            end
            GET_LINE: begin
                mem_req = 1'b1;
                mem_op = `MEM_LOAD;
                mem_base = lines;
                mem_word = {14'b0, word_of_source};
            end
            GET_CTL: begin
                mem_req = 1'b1;
                mem_op = `MEM_LOAD;
            end
            GET_ENABLE: begin
                mem_req = 1'b1;
                mem_op = `MEM_LOAD;
                mem_word = `XTL_FILE_ENABLE / 8 + {13'b0, word_of_source, 1'b0};
            end
            GET_THRESHOLD: begin
                mem_req = 1'b1;
                mem_op = `MEM_LOAD;
                mem_word = `XTL_FILE_THRESHOLD / 8;
            end
            MARK: begin  // N1
                mem_req = 1'b1;
                mem_op = `MEM_MARK;
                mem_mask[`XTL_FILE_CTL_ON] = 1'b1;
                mem_wdata[`XTL_FILE_CTL_ON] = 1'b1;
            end
            PUSH, POP: begin
                mem_req = state == PUSH ? !queue_full : !queue_empty;
                mem_op = state == PUSH ? `MEM_STORE : `MEM_LOAD;
                mem_base = {8'b0, queue_address};
                mem_word = 18'd0;
                mem_wdata[`XTL_HNOTIFY_V] = 1'b1;
                mem_wdata[`XTL_HNOTIFY_KIND] = kind;
                mem_wdata[`XTL_HNOTIFY_DOM] = dom;
                mem_wdata[`XTL_HNOTIFY_ID] = kind == `XTL_KIND_RESAMPLE ? source : vhart;
            end
            default: ;
        endcase
    end

    // What a step does to harts. The steps themselves are below.
    wire last_step = state == FINISH;
    // A hit of another hart: the poke needs nothing of the hart that causes it.
    wire poke_other = state == LOOK && who != hart && !(job == `JOB_CLAIM && reads);
    // An interrupt is pending: the claim is given up (EXT-11).
    wire boundary = mem_ack || !mem_req;
    wire give_up = state == SEARCH && claiming && withdraw && boundary && !search_done;
    wire leave_search = state == SEARCH && settle && withdraw;

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
            MAP: if (flow == DETACH && slot_v) begin  // D1
                slot_write = 1'b1;
                terms_change = 2'b11;
            end
            SET_STATE: if (flow == ATTACH && mem_ack) begin
                slot_write = 1'b1;
                slot_value = !mem_err;  // A1; else SLOT-2
                terms_change = {2{mem_err}};
            end
            SET_SOFT: if (flow == SSIP && mem_ack && !mem_err) begin
                terms_change = 2'b01;
                terms_value = {1'b0, mem_wdata[`XTL_FILE_CTL_SOFT]};
            end
            FIND_DOMAIN, FIND_FILE: if (walk_done && !walk_ok && (flow == POKE || flow == CLAIM))
                terms_change = 2'b11;
            SEARCH: if (search_done) begin
                case (flow)
                    POKE, ATTACH: begin
                        terms_change = 2'b11;
                        terms_value = {search_found, soft};
                        poke = flow == POKE;
                    end
                    ENABLE, THRESHOLD: begin
                        terms_change = 2'b10;
                        terms_value = {search_found, 1'b0};
                    end
                    CLAIM: if (settle || !search_found) begin
                        terms_change = 2'b10;
                        terms_value = {search_found, 1'b0};
                    end
                    default: ;
                endcase
            end
            SET_PENDING: if (flow == CLAIM && mem_ack && !mem_err && |(mem_rdata & bit_of_source)) begin
                terms_change = {more || whole, 1'b0};
                terms_value = {more, 1'b0};
            end
            PUSH: begin
                queue_push = mem_ack && !mem_err;
                queue_overflow = queue_full || (mem_ack && mem_err);
            end
            POP: begin
                queue_pop = mem_ack;
                queue_report = queue_empty || mem_ack;
            end
            default: ;
        endcase
    end

    // What follows a part of a job: the claim after a completion, the attach after a detach.
    wire [4:0] after = job == `JOB_CLAIM && flow != CLAIM && reads ? CLAIM_ALSO
                     : flow == DETACH ? MAP : FINISH;

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
                state <= LOOK;
            end else if (wanted)
                state <= miss;
            else
                part_over;
        end
    endtask

    always @(posedge clk) begin
        if (reset) begin
            state <= IDLE;
            turn <= {BITS{1'b0}};
            answered <= 1'b0;
            failed <= 1'b0;
        end else begin
            if (answer)
                answered <= 1'b1;
            if (mem_ack && mem_err)
                failed <= 1'b1;
            case (state)
                IDLE: begin
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
                        state <= START;
                end
                START: begin
                    state <= FIND_DOMAIN;
                    source <= operand[15:0];  // ID of all operands
                    // SLOT-7
                    leave <= job == `JOB_CONFIG || operand[`XTL_HIFMAP_STATE] == `XTL_STATE_LOADED
                        ? `XTL_STATE_PREEMPTED : operand[`XTL_HIFMAP_STATE];
                    if (job != `JOB_POST) begin
                        dom <= slot_dom;
                        vhart <= slot_vhart;
                    end
                    case (job)
                        `JOB_POST: flow <= SOFT;
                        `JOB_GENERATE: begin
                            dom <= operand[`XTL_HGENVSI_DOM];
                            vhart <= operand[`XTL_HGENVSI_ID];
                            case (generate_op)
                                `XTL_OP_EDGE: flow <= EDGE;
                                `XTL_OP_ASSERT: flow <= ASSERT;
                                `XTL_OP_DEASSERT: flow <= DEASSERT;
                                `XTL_OP_SOFT: flow <= SOFT;
                                `XTL_OP_EVAL: flow <= EVAL;
                                default: state <= FINISH;
                            endcase
                        end
                        `JOB_CLAIM: flow <= writes ? COMPLETE : CLAIM;
                        `JOB_ENABLE: flow <= ENABLE;
                        `JOB_THRESHOLD: flow <= THRESHOLD;
                        `JOB_SSIP: flow <= SSIP;
                        `JOB_MAP:
                            if (operand[`XTL_HIFMAP_V]) begin
                                flow <= PROBE;
                                dom <= operand[`XTL_HIFMAP_DOM];
                                vhart <= operand[`XTL_HIFMAP_VHART];
                                if (!en)
                                    state <= MAP;
                            end else begin
                                flow <= DETACH;
                                state <= MAP;
                            end
                        `JOB_CONFIG: begin
                            flow <= DETACH;
                            state <= operand[`XTL_HTLCFG_EN] ? FINISH : MAP;
                        end
                        `JOB_NOTIFY: state <= POP;
                        default: state <= FINISH;
                    endcase
                end

                FIND_DOMAIN: if (walk_done) begin
                    if (!walk_ok && flow == PROBE)
                        state <= MAP;
                    else if (!walk_ok)
                        part_over;
                    else
                        state <= flow == EDGE || flow == ASSERT || flow == DEASSERT
                            || flow == COMPLETE ? FIND_SOURCE : FIND_FILE;
                end
                FIND_SOURCE: if (walk_done) begin
                    vhart <= mem_rdata[`XTL_SOURCE_ENTRY_VHART];
                    if (!walk_ok)
                        part_over;
                    else if (flow == EDGE)
                        state <= FIND_FILE;
                    else if (flow != COMPLETE || mem_rdata[`XTL_SOURCE_ENTRY_RESAMPLE]
                            || mem_rdata[`XTL_SOURCE_ENTRY_LEVEL])
                        state <= FIND_LINES;
                    else
                        part_over;  // EXT-9
                end
                FIND_LINES: if (walk_done) begin
                    if (walk_ok)
                        state <= flow == COMPLETE && !resample ? GET_LINE : SET_LINE;
                    else
                        part_over;
                end
                FIND_FILE: if (walk_done) begin
                    if (flow == PROBE) begin
                        exists <= walk_ok;
                        state <= MAP;
                    end else if (!walk_ok)
                        part_over;
                    else
                        case (flow)
                            SOFT, SSIP: state <= SET_SOFT;
                            EVAL, POKE: state <= GET_CTL;
                            CLAIM: state <= SEARCH;
                            ENABLE:
                                if (source != 16'd0 && source <= {6'b0, sources})
                                    state <= SET_ENABLE;
                                else
                                    part_over;
                            THRESHOLD: state <= op == `PORT_READ ? GET_THRESHOLD : SET_THRESHOLD;
                            ATTACH, DETACH: state <= SET_STATE;
                            default: state <= SET_PENDING;
                        endcase
                end

                SET_LINE: if (mem_ack) begin
                    if (mem_err)
                        part_over;
                    else if (flow == COMPLETE)
                        state <= SET_RESAMPLE;  // EXT-7
                    else if (flow == ASSERT ? (mem_rdata & bit_of_source) == 64'b0 : level)
                        state <= FIND_FILE;
                    else
                        part_over;
                end
                SET_RESAMPLE: if (mem_ack) begin
                    kind <= `XTL_KIND_RESAMPLE;
                    near <= {{(16 - BITS){1'b0}}, hart};
                    if (!mem_err && (mem_rdata & bit_of_source) == 64'b0)
                        state <= CHOOSE;
                    else
                        part_over;
                end
                GET_LINE: if (mem_ack) begin  // EXT-8
                    if (!mem_err && (mem_rdata & bit_of_source) != 64'b0)
                        state <= FIND_FILE;
                    else
                        part_over;
                end

                SET_SOFT: if (mem_ack) begin
                    data[1] <= ctl_soft && !mem_err;
                    if (mem_err || flow == SSIP)
                        part_over;
                    else
                        look_up(MARK);
                end
                SET_PENDING: if (mem_ack) begin
                    if (flow == CLAIM) begin
                        settle <= mem_err || (mem_rdata & bit_of_source) != 64'b0;
                        state <= SEARCH;
                        if (!mem_err && (mem_rdata & bit_of_source) != 64'b0) begin
                            data[9:0] <= source[9:0];
                            if (more || whole)
                                part_over;
                        end
                    end else if (mem_err
                            || (flow == DEASSERT && (mem_rdata & bit_of_source) == 64'b0))
                        part_over;
                    else
                        state <= GET_CTL;
                end
                SET_ENABLE: if (mem_ack) begin
                    settle <= 1'b1;
                    state <= SEARCH;
                end
                SET_THRESHOLD: if (mem_ack) begin
                    data[`XTL_VSTHRESHOLD_PRIO] <= mem_err ? 3'd0
                        : mem_rdata[`XTL_VSTHRESHOLD_PRIO];
                    settle <= 1'b1;
                    state <= SEARCH;
                end
                SET_STATE: if (mem_ack) begin  // A2, D2
                    soft <= ctl_soft;
                    if (mem_err)
                        part_over;
                    else if (flow == ATTACH)
                        state <= SEARCH;
                    else if (leave == `XTL_STATE_HALTED && !ctl_on)
                        state <= ctl_soft ? MARK : SEARCH;
                    else
                        part_over;
                end

                GET_CTL: if (mem_ack) begin
                    soft <= ctl_soft && !mem_err;
                    if (flow == POKE)
                        state <= SEARCH;
                    else if (mem_err)
                        part_over;
                    else
                        case (flow)
                            EVAL: look_up(ctl_soft ? MARK : SEARCH);
                            DEASSERT: begin
                                if (loaded)
                                    look_up(FINISH);
                                else
                                    part_over;
                            end
                            default: look_up(GET_ENABLE);
                        endcase
                end
                GET_ENABLE: if (mem_ack) begin  // E, DEL-8
                    if (!mem_err && (mem_rdata & bit_of_source) != 64'b0)
                        state <= GET_THRESHOLD;
                    else
                        part_over;
                end
                GET_THRESHOLD: if (mem_ack) begin
                    if (flow == THRESHOLD) begin
                        data[`XTL_VSTHRESHOLD_PRIO] <= mem_err ? 3'd0
                            : mem_rdata[`XTL_VSTHRESHOLD_PRIO];
                        part_over;
                    end else if (!mem_err && prio > mem_rdata[`XTL_VSTHRESHOLD_PRIO])
                        state <= MARK;
                    else
                        part_over;
                end

                SEARCH: begin
                    if (search_done) begin
                        more <= search_more;
                        whole <= search_whole;
                        if (claiming && search_found) begin
                            source <= {6'b0, search_source};
                            state <= SET_PENDING;
                        end else if ((flow == EVAL || flow == DETACH) && search_found)
                            state <= MARK;
                        else
                            part_over;
                    end else if (give_up)
                        part_over;
                end

                MARK: if (mem_ack) begin  // N1, DEL-9
                    kind <= ctl_state == `XTL_STATE_HALTED ? `XTL_KIND_WAKE : `XTL_KIND_YIELD;
                    near <= ctl_hart;
                    in_turn <= any;
                    if (!mem_err && wanted)
                        state <= CHOOSE;
                    else
                        part_over;
                end
                CHOOSE: begin
                    who <= chosen;
                    if (some_open)
                        state <= PUSH;
                    else
                        part_over;
                    if (some_open && in_turn)
                        turn <= {{(32 - BITS){1'b0}}, chosen} == HARTS - 1 ? {BITS{1'b0}} : chosen + 1'b1;
                end
                PUSH: if (queue_full || mem_ack)  // N2
                    part_over;
                POP: if (queue_empty || mem_ack) begin  // NTF-4, NTF-5
                    state <= FINISH;
                    if (!queue_empty && !mem_err)
                        data <= (mem_rdata & `XTL_HNOTIFY_FIELDS) | (64'd1 << `XTL_HNOTIFY_V);
                    data[`XTL_HNOTIFY_OVF] <= queue_lost || (!queue_empty && mem_err);
                end

                LOOK: begin
                    flow <= POKE;
                    dom <= slot_dom;
                    vhart <= slot_vhart;
                    if (slot_v)
                        state <= FIND_DOMAIN;
                    else
                        part_over;
                end
                MAP: begin
                    if (flow == PROBE) begin
                        if (slot_v && !(exists && slot_dom == dom && slot_vhart == vhart)) begin
                            flow <= DETACH;  // SLOT-1, SLOT-2
                            leave <= `XTL_STATE_PREEMPTED;
                        end else if (exists) begin
                            flow <= ATTACH;
                            state <= SET_STATE;
                        end else
                            state <= FINISH;
                    end else if (slot_v) begin
                        dom <= slot_dom;
                        vhart <= slot_vhart;
                        state <= FIND_DOMAIN;
                    end else if (exists) begin
                        flow <= ATTACH;
                        dom <= operand[`XTL_HIFMAP_DOM];
                        vhart <= operand[`XTL_HIFMAP_VHART];
                        state <= FIND_DOMAIN;
                    end else
                        state <= FINISH;
                end
                CLAIM_ALSO: begin
                    flow <= CLAIM;
                    dom <= slot_dom;
                    vhart <= slot_vhart;
                    state <= FIND_DOMAIN;
                end
                default: state <= IDLE;  // FINISH
            endcase
        end
    end

    wire unused = &{1'b0, affinity, operand[59:48], 1'b0};
endmodule
