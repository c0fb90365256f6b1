//! The request: spans as JSON.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use rustix::rand::{GetRandomFlags, getrandom};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use trace::{Awaited, Timeline};

use crate::Parent;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    resource_spans: [ResourceSpans<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceSpans<'a> {
    resource: Resource<'a>,
    scope_spans: [ScopeSpans<'a>; 1],
}

#[derive(Serialize)]
struct Resource<'a> {
    attributes: Vec<Attribute<'a>>,
}

#[derive(Serialize)]
struct ScopeSpans<'a> {
    scope: Scope,
    spans: Vec<Span<'a>>,
}

#[derive(Serialize)]
struct Scope {
    name: &'static str,
    version: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Span<'a> {
    trace_id: &'a str,
    span_id: String,
    parent_span_id: String,
    name: Cow<'a, str>,
    /// SPAN_KIND_INTERNAL
    kind: u8,
    start_time_unix_nano: String,
    end_time_unix_nano: String,
    attributes: Vec<Attribute<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Status>,
}

#[derive(Serialize)]
struct Status {
    /// STATUS_CODE_ERROR
    code: u8,
    message: String,
}

#[derive(Serialize)]
struct Attribute<'a> {
    key: &'static str,
    value: Value<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Value<'a> {
    string_value: Cow<'a, str>,
}

fn attribute<'a>(key: &'static str, value: impl Into<Cow<'a, str>>) -> Attribute<'a> {
    Attribute { key, value: Value { string_value: value.into() } }
}

/// A span's id: 16 hexadecimal digits, not all 0.
pub fn random_id() -> String {
    let mut bytes = [0u8; 8];
    // Never fails for so few bytes (getrandom(2)); if it did, ids alike would do no harm.
    let _ = getrandom(&mut bytes, GetRandomFlags::empty());
    format!("{:016x}", u64::from_ne_bytes(bytes).max(1))
}

/// Nanoseconds from CLOCK_MONOTONIC_RAW to the wall clock.
pub fn wall_clock_offset() -> i128 {
    let wall = clock_gettime(ClockId::Realtime);
    let wall = i128::from(wall.tv_sec) * 1_000_000_000 + i128::from(wall.tv_nsec);
    wall - i128::from(trace::now())
}

/// The request for a time line. `offset` makes its times those of the wall clock, `id` makes ids.
pub fn of(
    timeline: &Timeline,
    parent: &Parent,
    offset: i128,
    id: &mut dyn FnMut() -> String,
) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (trace, asked_by) = (text(&parent.trace), text(&parent.span));
    let time = |time: u64| (i128::from(time) + offset).to_string();
    let mut spans: Vec<Span<'_>> = Vec::new();
    let mut add = |parent: &str, name: Cow<'_, str>, (start, end), attributes, errno: u16| {
        let span_id = id();
        let status = (errno != 0).then(|| {
            let errno = rustix::io::Errno::from_raw_os_error(errno.into());
            Status { code: 2, message: sys::errno::describe(errno).to_string() }
        });
        spans.push(Span {
            trace_id: &trace,
            span_id: span_id.clone(),
            parent_span_id: parent.to_string(),
            name: name.into_owned().into(),
            kind: 1,
            start_time_unix_nano: time(start),
            end_time_unix_nano: time(end),
            attributes,
            status,
        });
        span_id
    };
    let whole = (timeline.start(), timeline.end());
    let about = vec![attribute("container.id", timeline.id.clone())];
    let command = add(&asked_by, Cow::Borrowed(timeline.command.as_str()), whole, about, 0);
    for row in &timeline.rows {
        let about = vec![attribute("process.pid", row.pid.to_string())];
        let time = (row.start, row.end);
        let process = add(&command, Cow::Borrowed(row.name.as_str()), time, about, 0);
        for span in &row.spans {
            let mut about = vec![attribute("dayfly.phase", span.phase.name())];
            if !span.object.is_empty() {
                about.push(attribute("dayfly.object", span.object.clone()));
            }
            if let Some(awaited) = span.wait {
                let whom = match awaited {
                    Awaited::Row(index) => timeline.rows.get(index).map(|row| row.name.clone()),
                    Awaited::Other => None,
                };
                about.push(attribute("dayfly.awaits", whom.unwrap_or_else(|| "other".into())));
            }
            let time = (span.start, span.end);
            add(&process, Cow::Borrowed(span.name.as_str()), time, about, span.errno);
        }
    }
    let request = Request {
        resource_spans: [ResourceSpans {
            resource: Resource { attributes: vec![attribute("service.name", "dayfly")] },
            scope_spans: [ScopeSpans {
                scope: Scope { name: "dayfly", version: env!("CARGO_PKG_VERSION") },
                spans,
            }],
        }],
    };
    serde_json::to_string(&request).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Endpoint, Error, export};
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::TcpListener;
    use trace::{Phase, Row};

    fn parent() -> Parent {
        Parent::parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01").unwrap()
    }

    fn timeline() -> Timeline {
        let span = |name: &str, errno, wait| trace::Span {
            phase: Phase::Mounts,
            name: name.into(),
            object: "a \"b\"".into(),
            start: 20,
            end: 30,
            wait,
            errno,
        };
        let host = Row {
            name: "host".into(),
            pid: 7,
            start: 10,
            end: 50,
            spans: vec![span("mount", 2, None), span("await", 0, Some(Awaited::Row(0)))],
            ..Row::default()
        };
        Timeline { command: "dayfly run".into(), id: "c".into(), rows: vec![host], notes: vec![] }
    }

    #[test]
    fn spans_are_children_of_one_another() {
        let mut next = 0;
        let mut id = || {
            next += 1;
            format!("{next:016x}")
        };
        let json: serde_json::Value =
            serde_json::from_str(&of(&timeline(), &parent(), 1_000_000, &mut id)).unwrap();
        let spans = &json["resourceSpans"][0]["scopeSpans"][0]["spans"];
        let field = |at: usize, name: &str| spans[at][name].as_str().unwrap().to_owned();
        assert_eq!(spans.as_array().unwrap().len(), 4);
        assert_eq!(field(0, "parentSpanId"), "b7ad6b7169203331");
        assert_eq!(field(1, "parentSpanId"), field(0, "spanId"));
        assert_eq!(field(2, "parentSpanId"), field(1, "spanId"));
        assert_eq!(field(3, "traceId"), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(field(2, "startTimeUnixNano"), "1000020");
        assert_eq!((&spans[2]["status"]["code"], spans[3].get("status")), (&2.into(), None));
        assert_eq!(spans[2]["attributes"][1]["value"]["stringValue"], "a \"b\"");
    }

    #[test]
    fn ids_are_random() {
        assert_ne!(random_id(), random_id());
        assert_eq!(random_id().len(), 16);
    }

    /// A collector that takes one request and gives `answer`.
    fn collector(answer: &'static str) -> (Endpoint, std::thread::JoinHandle<Vec<u8>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let taken = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut line, mut length) = (String::new(), 0);
            while reader.read_line(&mut line).unwrap() > 2 {
                let lower = line.to_lowercase();
                if let Some(value) = lower.strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                line.clear();
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
            body
        });
        (Endpoint::parse(&url, "/v1/traces").unwrap(), taken)
    }

    #[test]
    fn a_collector_gets_it() {
        let (endpoint, taken) = collector("HTTP/1.1 200 OK\r\n\r\n{}");
        export(&timeline(), &parent(), &endpoint).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&taken.join().unwrap()).unwrap();
        assert!(json["resourceSpans"].is_array());
    }

    #[test]
    fn a_refusal_and_an_absence_are_told() {
        let (endpoint, taken) = collector("HTTP/1.1 400 Bad Request\r\n\r\n");
        let error = export(&timeline(), &parent(), &endpoint).unwrap_err();
        assert!(matches!(&error, Error::Refused(line) if line.contains("400")), "{error}");
        taken.join().unwrap();
        let error = export(&timeline(), &parent(), &endpoint).unwrap_err().to_string();
        assert!(error.contains("connect") && error.contains("refused"), "{error}");
    }
}
