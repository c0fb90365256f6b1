//! Compares our messages with those that rust-protobuf generates from containerd's .proto files. Each side must read
//! what the other has written, for generated values of every field, and the names of the fields must agree.

use std::collections::BTreeMap;
use std::fmt::Debug;

use containerd_shim_protos::protobuf::reflect::{
    FieldDescriptor, MessageDescriptor, ReflectValueBox, RuntimeFieldType, RuntimeType,
};
use containerd_shim_protos::protobuf::well_known_types::{any, timestamp};
use containerd_shim_protos::protobuf::{MessageDyn, MessageFull};
use containerd_shim_protos::{
    api, bootstrap_api, cgroups, cgroups_v2, events, shim, ttrpc as theirs_ttrpc, types,
};
use proto::message::Message;
use proto::messages as ours;
use proto::wire::{Reader, Writer};

/// The number of generated messages of each type.
const ROUNDS: u64 = 300;

/// Fields with other names in our messages: `type` is a keyword in Rust, and v1's counters have the kernel's names.
const RENAMED: [(&str, &str); 12] = [
    ("type", "kind"),
    ("periods", "nr_periods"),
    ("throttled_periods", "nr_throttled"),
    ("pg_pg_in", "pgpgin"),
    ("pg_pg_out", "pgpgout"),
    ("pg_fault", "pgfault"),
    ("pg_maj_fault", "pgmajfault"),
    ("hierarchical_swap_limit", "hierarchical_memsw_limit"),
    ("total_pg_pg_in", "total_pgpgin"),
    ("total_pg_pg_out", "total_pgpgout"),
    ("total_pg_fault", "total_pgfault"),
    ("total_pg_maj_fault", "total_pgmajfault"),
];

/// Deterministic pseudo-random numbers.
struct Source(u64);

impl Source {
    fn next(&mut self) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn number(&mut self) -> u64 {
        let bits = self.below(65) as u32;
        let number = self.next() << 40 ^ self.next() << 20 ^ self.next();
        number.checked_shr(64 - bits).unwrap_or(0)
    }

    /// Returns a random value; if `is_set`, never the default value.
    fn value(&mut self, kind: &RuntimeType, is_set: bool) -> ReflectValueBox {
        let least = u64::from(is_set);
        match kind {
            RuntimeType::U32 => ReflectValueBox::U32((self.number() as u32).max(least as u32)),
            RuntimeType::U64 => ReflectValueBox::U64(self.number().max(least)),
            RuntimeType::I32 => ReflectValueBox::I32(self.number() as i32 | least as i32),
            RuntimeType::I64 => ReflectValueBox::I64(self.number() as i64 | least as i64),
            RuntimeType::F64 => ReflectValueBox::F64(self.number() as f64 / 64.0 + least as f64),
            RuntimeType::Bool => ReflectValueBox::Bool(is_set || self.below(2) == 1),
            RuntimeType::String => {
                let length = least + self.below(9);
                ReflectValueBox::String(
                    (0..length).map(|at| if at % 3 == 2 { 'ä' } else { 'x' }).collect(),
                )
            }
            RuntimeType::VecU8 => {
                let length = least + self.below(200);
                ReflectValueBox::Bytes((0..length).map(|_| self.next() as u8).collect())
            }
            RuntimeType::Enum(kind) => {
                let values: Vec<i32> = kind.values().map(|value| value.value()).collect();
                // The value is a known or an unknown one. It is never negative, because rust-protobuf 3.7 writes a
                // wrong length for packed lists of negative values.
                let wanted = self.below(values.len() as u64 + 1) as usize;
                let value = values.get(wanted).copied().unwrap_or(77);
                ReflectValueBox::Enum(kind.clone(), if value == 0 && is_set { 1 } else { value })
            }
            RuntimeType::Message(kind) => ReflectValueBox::Message(self.message(kind)),
            RuntimeType::F32 => unreachable!("no message has a float"),
        }
    }

    fn set(&mut self, message: &mut dyn MessageDyn, field: &FieldDescriptor, is_set: bool) {
        match field.runtime_field_type() {
            RuntimeFieldType::Singular(kind) => {
                field.set_singular_field(message, self.value(&kind, is_set));
            }
            RuntimeFieldType::Repeated(kind) => {
                for _ in 0..u64::from(is_set) + self.below(4) {
                    let value = self.value(&kind, false);
                    field.mut_repeated(message).push(value);
                }
            }
            RuntimeFieldType::Map(key, value) => {
                for _ in 0..u64::from(is_set) + self.below(4) {
                    let (key, value) = (self.value(&key, false), self.value(&value, false));
                    field.mut_map(message).insert(key, value);
                }
            }
        }
    }

    fn message(&mut self, kind: &MessageDescriptor) -> Box<dyn MessageDyn> {
        let mut message = kind.new_instance();
        for field in kind.fields() {
            if self.below(3) != 0 {
                self.set(&mut *message, &field, false);
            }
        }
        message
    }
}

fn decode<M: Message>(bytes: &[u8]) -> M {
    let mut message = M::default();
    message.merge(Reader::new(bytes)).expect("theirs decodes");
    message
}

fn encode(message: &impl Message) -> Vec<u8> {
    let mut writer = Writer::default();
    message.write(&mut writer);
    writer.into_bytes()
}

/// Returns the fields of a message by name, in the form that Debug prints.
fn shown(message: &impl Debug) -> BTreeMap<String, String> {
    let mut fields = BTreeMap::new();
    let mut name = String::new();
    for line in format!("{message:#?}").lines() {
        if let Some((field, _)) = line
            .strip_prefix("    ")
            .filter(|rest| !rest.starts_with([' ', '}', ']', ')']))
            .and_then(|rest| rest.split_once(':'))
        {
            name = field.into();
        }
        fields.entry(name.clone()).or_insert_with(String::new).push_str(line);
    }
    fields
}

/// Compares one of our message types with the type that rust-protobuf generates.
fn compare<Ours: Message + Debug + PartialEq, Theirs: MessageFull>() {
    let kind = Theirs::descriptor();
    let mut source = Source(1);
    for round in 0..ROUNDS {
        let theirs = source.message(&kind);
        let bytes = theirs.write_to_bytes_dyn().expect("theirs encodes");
        let ours: Ours = decode(&bytes);
        let again = encode(&ours);
        let back = Theirs::parse_from_bytes(&again).expect("ours decodes");
        let theirs = theirs.downcast_box::<Theirs>().expect("its type");
        assert!(back == *theirs, "{} {round}\n{ours:#?}\n{theirs:#?}\n{back:#?}", kind.full_name());
        assert!(decode::<Ours>(&again) == ours);
    }
    let none = shown(&Ours::default());
    for field in kind.fields() {
        let mut theirs = kind.new_instance();
        source.set(&mut *theirs, &field, true);
        let ours = shown(&decode::<Ours>(&theirs.write_to_bytes_dyn().expect("theirs encodes")));
        let changed: Vec<&str> = ours
            .iter()
            .filter(|(name, text)| none.get(*name) != Some(text))
            .map(|(name, _)| &**name)
            .collect();
        let renamed = RENAMED.iter().find(|(theirs, _)| *theirs == field.name());
        let name = renamed.map_or(field.name(), |(_, ours)| ours);
        assert_eq!(changed, [name], "{}", field.full_name());
    }
    println!("{}", kind.full_name());
}

macro_rules! compare {
    ($(#[$about:meta] $name:ident: $ours:path, $theirs:path: $($message:ident)*;)*) => {$(
        #[$about]
        fn $name() {
            use $ours as ours_;
            use $theirs as theirs_;
            $(compare::<ours_::$message, theirs_::$message>();)*
        }
    )*};
}

compare! {
    #[test] tasks: ours::task, api: CreateTaskRequest CreateTaskResponse DeleteRequest DeleteResponse ExecProcessRequest
        ResizePtyRequest StateRequest StateResponse KillRequest CloseIORequest PidsRequest PidsResponse
        CheckpointTaskRequest UpdateTaskRequest StartRequest StartResponse WaitRequest WaitResponse StatsRequest
        StatsResponse ConnectRequest ConnectResponse ShutdownRequest PauseRequest ResumeRequest;
    #[test] processes: ours::process, types::task: ProcessInfo;
    #[test] mounts: ours::mount, types::mount: Mount;
    #[test] anything: ours::any, any: Any;
    #[test] times: ours::time, timestamp: Timestamp;
    #[test] nothing: ours::time, types::empty: Empty;
    #[test] options: ours::options, shim::oci: Options CheckpointOptions ProcessDetails;
    #[test] bootstrap: ours::bootstrap, bootstrap_api: BootstrapParams Extension BootstrapResult;
    #[test] info: ours::info, types::introspection: RuntimeVersion RuntimeInfo;
    #[test] published: ours::events, api: ForwardRequest;
    #[test] envelopes: ours::events, shim::event: Envelope;
    #[test] events_of_tasks: ours::events, events::task: TaskCreate TaskStart TaskDelete TaskIO TaskExit TaskOOM
        TaskExecAdded TaskExecStarted TaskPaused TaskResumed TaskCheckpointed;
    #[test] metrics_v1: ours::metrics_v1, cgroups::metrics: Metrics HugetlbStat PidsStat CPUStat CPUUsage Throttle MemoryStat
        MemoryEntry MemoryOomControl BlkIOStat BlkIOEntry RdmaStat RdmaEntry NetworkStat CgroupStats;
    #[test] metrics_v2: ours::metrics_v2, cgroups_v2::metrics: Metrics PSIData PSIStats PidsStat CPUStat MemoryStat MemoryEvents
        RdmaStat RdmaEntry IOStat IOEntry HugeTlbStat NetworkStat;
    #[test] calls: proto::ttrpc::request, theirs_ttrpc::proto: Request Response KeyValue;
    #[test] statuses: proto::ttrpc::status, theirs_ttrpc::proto: Status;
}

/// Checks that type URLs are the full names in the .proto files.
#[test]
fn type_urls() {
    fn same<Ours: proto::message::Packed, Theirs: MessageFull>() {
        assert_eq!(Ours::TYPE_URL, Theirs::descriptor().full_name());
    }
    same::<ours::options::Options, shim::oci::Options>();
    same::<ours::options::CheckpointOptions, shim::oci::CheckpointOptions>();
    same::<ours::options::ProcessDetails, shim::oci::ProcessDetails>();
    same::<ours::metrics_v1::Metrics, cgroups::metrics::Metrics>();
    same::<ours::metrics_v2::Metrics, cgroups_v2::metrics::Metrics>();
    same::<ours::events::TaskCreate, events::task::TaskCreate>();
    same::<ours::events::TaskStart, events::task::TaskStart>();
    same::<ours::events::TaskDelete, events::task::TaskDelete>();
    same::<ours::events::TaskIO, events::task::TaskIO>();
    same::<ours::events::TaskExit, events::task::TaskExit>();
    same::<ours::events::TaskOOM, events::task::TaskOOM>();
    same::<ours::events::TaskExecAdded, events::task::TaskExecAdded>();
    same::<ours::events::TaskExecStarted, events::task::TaskExecStarted>();
    same::<ours::events::TaskPaused, events::task::TaskPaused>();
    same::<ours::events::TaskResumed, events::task::TaskResumed>();
    same::<ours::events::TaskCheckpointed, events::task::TaskCheckpointed>();
    same::<ours::info::RuntimeInfo, types::introspection::RuntimeInfo>();
    same::<ours::process::ProcessInfo, types::task::ProcessInfo>();
    same::<ours::mount::Mount, types::mount::Mount>();
    same::<ours::bootstrap::BootstrapParams, bootstrap_api::BootstrapParams>();
    same::<ours::bootstrap::BootstrapResult, bootstrap_api::BootstrapResult>();
    same::<ours::time::Timestamp, timestamp::Timestamp>();
}
