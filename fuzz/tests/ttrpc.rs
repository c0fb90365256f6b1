//! Tests our ttrpc client and server with those of ttrpc-rust, over a socket pair.

use std::io;
use std::os::fd::{AsFd, IntoRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Mutex};
use std::thread;

use containerd_shim_protos::api;
use containerd_shim_protos::ttrpc::{self, context};
use containerd_shim_protos::{Client as TheirClient, Events, TaskClient, create_events};
use proto::messages::any::Any;
use proto::messages::{events, task, time};
use proto::ttrpc::{Client, Connection, Status};
use rustix::event::{PollFd, PollFlags, poll};

/// Waits until a descriptor is readable, or, if `writes` is true, until it is readable or writable.
fn ready(fd: impl AsFd, writes: bool) -> io::Result<()> {
    let interest = if writes { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
    poll(&mut [PollFd::new(&fd, interest)], None)?;
    Ok(())
}

/// Answers a shim's requests: State with success, Kill with an error, Stats with a large message.
fn serve(socket: OwnedFd) -> usize {
    let mut connection = Connection::new(socket);
    let mut answered = 0;
    loop {
        ready(connection.fd(), connection.wants_to_write()).expect("poll");
        let Ok(calls) = connection.receive() else { return answered };
        for call in calls {
            assert_eq!(call.service, task::SERVICE_V3);
            let answer = match task::Method::from_name(&call.method) {
                Some(task::Method::State) => {
                    let request = task::StateRequest::decode(&call.payload).expect("request");
                    assert_eq!(call.timeout, Some(5_000_000_000));
                    Ok(task::StateResponse { id: request.id, pid: 7, ..Default::default() }
                        .encode())
                }
                Some(task::Method::Stats) => {
                    let stats = Some(Any { type_url: "large".into(), value: vec![9; 3 << 20] });
                    Ok(task::StatsResponse { stats }.encode())
                }
                Some(task::Method::Kill) => Err(Status::not_found("process: not found")),
                _ => Err(Status::unimplemented(call.method)),
            };
            connection.respond(call.stream, answer);
            answered += 1;
        }
        if connection.flush().is_err() {
            return answered;
        }
    }
}

#[test]
fn their_client_calls_our_server() {
    let (ours, theirs) = UnixStream::pair().expect("socketpair");
    let server = thread::spawn(move || serve(ours.into()));
    {
        let client = TaskClient::new(TheirClient::new(theirs.into_raw_fd()).expect("client"));
        let mut request = api::StateRequest::new();
        request.id = "c1".into();
        for _ in 0..100 {
            let state =
                client.state(context::with_timeout(5_000_000_000), &request).expect("State");
            assert_eq!((&*state.id, state.pid), ("c1", 7));
        }
        let stats =
            client.stats(context::with_timeout(0), &api::StatsRequest::new()).expect("Stats");
        assert_eq!(stats.stats.value.len(), 3 << 20);
        let error =
            client.kill(context::with_timeout(0), &api::KillRequest::new()).expect_err("Kill");
        let ttrpc::Error::RpcStatus(status) = error else { panic!("{error}") };
        assert_eq!(
            (status.code(), status.message()),
            (ttrpc::Code::NOT_FOUND, "process: not found")
        );
        let error =
            client.pause(context::with_timeout(0), &api::PauseRequest::new()).expect_err("Pause");
        assert!(
            matches!(error, ttrpc::Error::RpcStatus(status) if status.code() == ttrpc::Code::UNIMPLEMENTED)
        );
    }
    assert_eq!(server.join().expect("server"), 103);
}

/// A server that collects the topics of the events it receives.
#[derive(Clone, Default)]
struct Topics(Arc<Mutex<Vec<String>>>);

impl Events for Topics {
    fn forward(
        &self,
        _: &ttrpc::TtrpcContext,
        request: api::ForwardRequest,
    ) -> ttrpc::Result<api::Empty> {
        assert_eq!(request.envelope.event.type_url, "containerd.events.TaskExit");
        if request.envelope.namespace.is_empty() {
            return Err(ttrpc::Error::RpcStatus(ttrpc::get_status(
                ttrpc::Code::FAILED_PRECONDITION,
                "namespace",
            )));
        }
        self.0.lock().expect("topics").push(request.envelope.topic.clone());
        Ok(api::Empty::new())
    }
}

#[test]
fn our_client_calls_their_server() {
    let directory = std::env::temp_dir().join(format!("dayfly-ttrpc.{}", std::process::id()));
    std::fs::create_dir(&directory).expect("directory");
    let path = directory.join("s");
    let listener = UnixListener::bind(&path).expect("bind");
    let topics = Topics::default();
    let mut server = ttrpc::Server::new()
        .add_listener(listener.into_raw_fd())
        .expect("listener")
        .register_service(create_events(Arc::new(topics.clone())));
    server.start().expect("start");
    let mut client = Client::new(UnixStream::connect(&path).expect("connect").into());
    let event = |namespace: &str| {
        let exit =
            events::TaskExit { container_id: "c1".into(), exit_status: 137, ..Default::default() };
        let envelope = events::Envelope {
            timestamp: Some(time::Timestamp { seconds: 1, nanos: 2 }),
            namespace: namespace.into(),
            topic: events::topic::TASK_EXIT.into(),
            event: Some(Any::pack(&exit)),
        };
        events::ForwardRequest { envelope: Some(envelope) }.encode()
    };
    let mut calls: Vec<u32> =
        (0..50).map(|_| client.call(events::SERVICE, events::FORWARD, event("k8s.io"))).collect();
    let refused = client.call_within(1_000_000_000, events::SERVICE, events::FORWARD, event(""));
    let unknown = client.call(events::SERVICE, "Publish", event("k8s.io"));
    let mut failed = Vec::new();
    while client.open() > 0 {
        client.flush().expect("flush");
        ready(client.fd(), client.wants_to_write()).expect("poll");
        for (stream, answer) in client.receive().expect("receive") {
            match answer {
                Ok(payload) => {
                    time::Empty::decode(&payload).expect("Empty");
                    calls.retain(|call| *call != stream);
                }
                Err(status) => failed.push((stream, status.code)),
            }
        }
    }
    assert_eq!(calls, []);
    failed.sort_unstable();
    let codes = [
        proto::ttrpc::status::code::FAILED_PRECONDITION,
        proto::ttrpc::status::code::INVALID_ARGUMENT,
    ];
    assert_eq!(failed, [(refused, codes[0]), (unknown, codes[1])]);
    assert_eq!(*topics.0.lock().expect("topics"), vec![events::topic::TASK_EXIT; 50]);
    drop(client);
    server.shutdown();
    std::fs::remove_dir_all(directory).expect("directory");
}
