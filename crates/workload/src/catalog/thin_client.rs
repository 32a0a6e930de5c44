//! `thin-client`: a server of thin clients (Zheng and Nieh 2004, section 5.1). An important
//! application draws through its display server, which is not important, among many other
//! sessions that play films.

use schedlab_base::{Better, DurationNs};

use crate::measure::{CounterId, Formula, MetricSpec, SpanId};
use crate::program::{Amount, ChannelId, Op, ProgramBuilder};
use crate::scenario::{ChannelKind, End, Scenario};

use super::WorkloadInfo;
use super::draft::Draft;
use super::params::{CatalogError, ParamInfo, ParamKind, Params};
use super::swap::{IMPORTANT, make_important};

/// A request or reply; pictures lie in shared memory. Chosen.
const MESSAGE: u32 = 64;

/// A page of the browser: this many times it waits for the network and computes, then draws
/// this many times. The first is calibrated on "more than 11 seconds" a page; the rest is chosen: 60 ms of network,
/// 250 ms of the browser, 120 ms of the display server.
const PARTS: u64 = 5;
const DRAWS: u64 = 4;
const NETWORK: DurationNs = DurationNs::from_ms(12);
const LAYOUT: DurationNs = DurationNs::from_ms(50);
const DRAW: DurationNs = DurationNs::from_ms(6);

pub(super) const THIN_CLIENT: WorkloadInfo = WorkloadInfo {
    name: "thin-client",
    about: "an application and its display server, among sessions that play films",
    params: &[
        ParamInfo {
            name: "sessions",
            // The paper: 0 and 50.
            default: "0",
            unit: "",
            about: "other sessions, each a film player with its display server",
            kind: ParamKind::Count { min: 0, max: 1000 },
        },
        ParamInfo {
            name: "app",
            default: "mpeg",
            unit: "",
            about: "the application: a film player (mpeg) or a browser",
            kind: ParamKind::Word(&["mpeg", "browser"]),
        },
        IMPORTANT,
        ParamInfo {
            name: "frames",
            // The paper's clip.
            default: "834",
            unit: "",
            about: "frames that the player shows",
            kind: ParamKind::Count { min: 1, max: 1_000_000 },
        },
        ParamInfo {
            name: "pages",
            // The paper's number.
            default: "54",
            unit: "",
            about: "pages that the browser shows",
            kind: ParamKind::Count { min: 1, max: 1_000_000 },
        },
        ParamInfo {
            name: "decode",
            // Both together 53.4 ms, inferred. The important player does not wait for the CPU, so its frame
            // takes its own work and one round. In a round each of the 50 other sessions has one turn, of
            // the player or of its display server: 50 / 2 + 1 times both is 1389 ms. The split is chosen.
            default: "24ms",
            unit: "ms",
            about: "CPU time of the player per frame",
            kind: ParamKind::Duration("ms"),
        },
        ParamInfo {
            name: "render",
            default: "29400us",
            unit: "ms",
            about: "CPU time of the display server per frame",
            kind: ParamKind::Duration("ms"),
        },
    ],
    metrics: &[("frame_rate", "frames/s"), ("page_time", "s")],
    build,
};

/// What all sessions share.
struct Clip {
    decode: Op,
    render: Op,
    frames: CounterId,
    watched: SpanId,
}

fn build(params: &Params, _seed: u64) -> Result<Scenario, CatalogError> {
    let mut draft = Draft::new("thin-client", params, End::ForegroundExit);
    let clip = Clip {
        decode: Op::Run(params.duration("decode")),
        render: Op::Run(params.duration("render")),
        frames: draft.counter(),
        watched: draft.span(),
    };
    let page = draft.span();
    let browser = params.word("app") == "browser";
    let (there, back) = draft.connection(ChannelKind::Unix, MESSAGE);
    let app = if browser {
        browse(params.count("pages"), page, (there, back))
    } else {
        let show = Op::Count { counter: clip.frames, units: 1 };
        ProgramBuilder::new()
            .op(Op::SpanBegin(clip.watched))
            .repeat(Amount::Times(params.count("frames")), |b| frame(b, &clip, (there, back)).op(show))
            .op(Op::SpanEnd(clip.watched))
    };
    let app = draft.program(app);
    let process = draft.process();
    make_important(draft.task(params.word("app").into(), process, app), params);
    display(&mut draft, "display", if browser { Op::Run(DRAW) } else { clip.render }, (there, back));
    for number in 0..params.count32("sessions") {
        let connection = draft.connection(ChannelKind::Unix, MESSAGE);
        let player = ProgramBuilder::new().repeat(Amount::Forever, |b| frame(b, &clip, connection));
        let player = draft.program(player);
        let process = draft.process();
        draft.task(format!("player/{number}"), process, player).background = true;
        display(&mut draft, &format!("display/{number}"), clip.render, connection);
    }
    let rate = Formula::Rate { counter: clip.frames, over: Some(clip.watched) };
    let metrics = [
        ("frame_rate", "frames/s", Better::Higher, rate),
        ("page_time", "s", Better::Lower, Formula::MeanSpanSeconds(page)),
    ];
    for (name, unit, better, formula) in metrics {
        draft.metric(MetricSpec { name: name.into(), unit, better, formula });
    }
    draft.finish()
}

/// One request and its reply.
fn request(b: ProgramBuilder, (there, back): (ChannelId, ChannelId)) -> ProgramBuilder {
    b.op(Op::Send { channel: there, bytes: MESSAGE }).op(Op::Recv { channel: back, bytes: MESSAGE })
}

/// One frame: as fast as it goes, as players of that time did.
fn frame(b: ProgramBuilder, clip: &Clip, connection: (ChannelId, ChannelId)) -> ProgramBuilder {
    request(b.op(clip.decode), connection)
}

fn browse(pages: u64, page: SpanId, connection: (ChannelId, ChannelId)) -> ProgramBuilder {
    ProgramBuilder::new().repeat(Amount::Times(pages), |b| {
        b.op(Op::SpanBegin(page))
            .repeat(Amount::Times(PARTS), |b| {
                b.op(Op::Sleep(NETWORK))
                    .op(Op::Run(LAYOUT))
                    .repeat(Amount::Times(DRAWS), |b| request(b, connection))
            })
            .op(Op::SpanEnd(page))
    })
}

/// Adds a display server.
fn display(draft: &mut Draft, name: &str, work: Op, (there, back): (ChannelId, ChannelId)) {
    let body = ProgramBuilder::new().repeat(Amount::Forever, |b| {
        b.op(Op::Recv { channel: there, bytes: MESSAGE })
            .op(work)
            .op(Op::Send { channel: back, bytes: MESSAGE })
    });
    let program = draft.program(body);
    let process = draft.process();
    draft.task(name.into(), process, program).background = true;
}

#[cfg(test)]
mod tests {
    use super::super::build;

    #[test]
    fn every_session_has_a_display_server() {
        let scenario = build("thin-client:sessions=50", 1).unwrap();
        assert_eq!(scenario.tasks.len(), 2 * 51);
        assert_eq!(scenario.tasks.iter().filter(|task| task.background).count(), 101);
        assert_eq!(build("thin-client:app=browser", 1).unwrap().tasks[0].name, "browser");
    }
}
