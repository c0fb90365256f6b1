//! containerd's protobuf messages: the input is decoded as each message type.

use std::fmt::Debug;

use proto::message::Message;
use proto::messages::{
    any, bootstrap, events, info, metrics_v1, metrics_v2, mount, options, process, task, time,
};
use proto::ttrpc::{request, status};
use proto::wire::{Reader, Writer};

use crate::allocation::peak;

/// The maximum number of bytes of memory for each byte of a message. It is this large because an empty submessage takes
/// two bytes on the wire, and lists are copied while they grow.
const GROWTH: u64 = 300;
/// The maximum number of bytes of memory for an empty message.
const LEAST: u64 = 4 << 10;

macro_rules! each {
    ($bytes:expr, $($subject:ident: $($message:ident)*;)*) => {
        $($(check::<$subject::$message>($bytes);)*)*
    };
}

/// Decodes the input as each message type; decoding may fail.
pub fn target(data: &[u8]) {
    each! { data,
        any: Any;
        bootstrap: BootstrapParams Extension BootstrapResult;
        events: ForwardRequest Envelope TaskCreate TaskStart TaskDelete TaskIO TaskExit TaskOOM TaskExecAdded
            TaskExecStarted TaskPaused TaskResumed TaskCheckpointed;
        info: RuntimeVersion RuntimeInfo;
        metrics_v1: Metrics HugetlbStat PidsStat CPUStat CPUUsage Throttle MemoryStat MemoryEntry MemoryOomControl BlkIOStat
            BlkIOEntry RdmaStat RdmaEntry NetworkStat CgroupStats;
        metrics_v2: Metrics PSIData PSIStats PidsStat CPUStat MemoryStat MemoryEvents RdmaStat RdmaEntry IOStat IOEntry
            HugeTlbStat NetworkStat;
        mount: Mount MountCapabilities;
        options: Options CheckpointOptions ProcessDetails RuntimeOptions;
        process: ProcessInfo;
        request: Request Response KeyValue;
        status: Status;
        task: CreateTaskRequest CreateTaskResponse DeleteRequest DeleteResponse ExecProcessRequest ResizePtyRequest
            StateRequest StateResponse KillRequest CloseIORequest PidsRequest PidsResponse CheckpointTaskRequest
            UpdateTaskRequest StartRequest StartResponse WaitRequest WaitResponse StatsRequest StatsResponse
            ConnectRequest ConnectResponse ShutdownRequest PauseRequest ResumeRequest;
        time: Timestamp Empty;
    }
}

fn decode<M: Message>(bytes: &[u8]) -> Option<M> {
    let mut message = M::default();
    message.merge(Reader::new(bytes)).is_ok().then_some(message)
}

fn encode(message: &impl Message) -> Vec<u8> {
    let mut writer = Writer::default();
    message.write(&mut writer);
    writer.into_bytes()
}

/// Checks that a decoded message stays the same when it is encoded and decoded again, and that it takes memory in
/// proportion to its bytes.
fn check<M: Message + Debug + PartialEq>(bytes: &[u8]) {
    let (message, memory) = peak(|| decode::<M>(bytes));
    assert!(memory <= LEAST + GROWTH * bytes.len() as u64, "{memory} bytes for {}", bytes.len());
    let Some(message) = message else { return };
    let encoded = encode(&message);
    let again = decode::<M>(&encoded).expect("what was encoded decodes");
    assert_eq!(encode(&again), encoded);
    // NaN does not equal itself.
    assert!(
        message == again || format!("{message:?}") == format!("{again:?}"),
        "{message:?}\n{again:?}"
    );
}
