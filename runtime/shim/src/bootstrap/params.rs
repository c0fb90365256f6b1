//! The parameters of `start` and the format of its answer, both of which depend on containerd's version.
//!
//! | containerd | on stdin | answer |
//! |---|---|---|
//! | 2.3 and later | BootstrapParams | BootstrapResult, in protobuf |
//! | 2.0 to 2.2 (`MAX_SHIM_VERSION=2`) | an Any with options, or nothing | the bare address (`version` 2), or JSON |
//! | 1.7 (`MAX_SHIM_VERSION=2`) | as above | the bare address, or JSON with `version` 2; `version` 3 is refused |
//! | 1.6, CRI-O | as above | the bare address; 1.6 would treat JSON as an address |
//!
//! The versions 1.7 and 2.0 to 2.2 cannot be distinguished, since all of them set `MAX_SHIM_VERSION=2` (as do later
//! versions). So they get the bare address, which all of them accept. If containerd's shim manager is configured
//! (`env`) to set `MAX_SHIM_VERSION=3`, the answer is JSON with `version` 3.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use proto::messages::any::Any;
use proto::messages::bootstrap::{BootstrapParams, BootstrapResult, Extension, log_level};
use proto::messages::mount::MountCapabilities;
use proto::messages::options::{Options, RuntimeOptions};

use super::info::MOUNT_TYPES;
use super::{Failure, options};
use crate::flags::Flags;

/// The environment variable that contains the address of containerd's event socket.
const TTRPC_ADDRESS: &str = "TTRPC_ADDRESS";
/// The environment variable that contains the highest version of the task service that containerd claims to support.
const MAX_VERSION: &str = "MAX_SHIM_VERSION";
/// The protocol on the shim's socket.
const PROTOCOL: &str = "ttrpc";

/// The format of the answer to `start`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// The protobuf message BootstrapResult.
    Protobuf,
    /// JSON with `version` 3.
    Json,
    /// The bare address, without further fields.
    Address,
}

/// The parameters of `start`.
#[derive(Debug, Clone, PartialEq)]
pub struct Params {
    /// The format of the answer.
    pub language: Language,
    /// The address of containerd's event socket.
    pub ttrpc_address: Option<String>,
    /// The address of containerd's main socket, from which the name of the shim's socket is computed.
    pub grpc_address: String,
    /// The directory for the shim's socket, if containerd specifies one.
    pub socket_dir: Option<String>,
    /// Whether every step is logged.
    pub debug: bool,
    /// The runtime's options.
    pub options: Options,
}

impl Params {
    /// Reads the parameters from standard input, the command line and the environment.
    ///
    /// # Errors
    /// If the input is neither BootstrapParams nor an Any, or the options are invalid.
    pub fn read(
        input: &[u8],
        flags: &Flags<'_>,
        env: impl Fn(&str) -> Option<&'static str>,
    ) -> Result<Self, Failure> {
        let ttrpc = |address: &str| {
            let given = Some(address).filter(|address| !address.is_empty());
            given.or_else(|| env(TTRPC_ADDRESS)).filter(|it| !it.is_empty()).map(str::to_string)
        };
        // An Any with options may also be decodable as BootstrapParams. Its type URL then appears as the id, so the id
        // is compared with that of the command line.
        let is_meant = |params: &BootstrapParams| {
            params.instance_id == flags.id && params.namespace == flags.namespace
        };
        if let Some(params) = BootstrapParams::decode(input).ok().filter(is_meant) {
            let given = params.extensions.iter().filter_map(|extension| extension.value.as_ref());
            let mut known = given.filter(|any| any.is::<Options>() || any.is::<RuntimeOptions>());
            return Ok(Self {
                language: Language::Protobuf,
                ttrpc_address: ttrpc(&params.containerd_ttrpc_address),
                grpc_address: params.containerd_grpc_address,
                socket_dir: params.socket_dir.filter(|path| !path.is_empty()),
                debug: flags.debug || params.log_level <= log_level::DEBUG,
                options: known.next().map_or_else(|| Ok(Options::default()), options::read)?,
            });
        }
        let version = env(MAX_VERSION).and_then(|version| version.parse().ok()).unwrap_or(2);
        Ok(Self {
            language: if version >= 3 { Language::Json } else { Language::Address },
            ttrpc_address: ttrpc(""),
            grpc_address: flags.address.to_string(),
            socket_dir: None,
            debug: flags.debug,
            options: match input {
                [] => Options::default(),
                _ => options::read(&Any::decode(input).map_err(|error| {
                    Failure::from(format!(
                        "standard input: neither parameters nor options: {error}"
                    ))
                })?)?,
            },
        })
    }
}

/// Returns the answer of a shim that listens at `address`.
pub fn answer(language: Language, address: &str) -> Vec<u8> {
    match language {
        Language::Address => address.into(),
        Language::Json => {
            let address = serde_json::Value::from(address);
            format!(r#"{{"version":3,"address":{address},"protocol":"{PROTOCOL}"}}"#).into()
        }
        Language::Protobuf => {
            // The list is needed even if it is empty: without it, containerd 2.4 also runs the program with `-info`.
            let types = MOUNT_TYPES.iter().map(|kind| kind.to_string()).collect();
            let mounts = MountCapabilities { types, transforms: Vec::new() };
            let extension = Extension { value: Some(Any::pack(&mounts)) };
            BootstrapResult {
                version: 3,
                address: address.into(),
                protocol: PROTOCOL.into(),
                extensions: Vec::from([extension]),
                ..BootstrapResult::default()
            }
            .encode()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags() -> Flags<'static> {
        let (namespace, address) = ("k8s.io", "/run/c.sock");
        Flags { namespace, id: "web", address, action: "start", ..Flags::default() }
    }

    fn env(name: &str) -> Option<&'static str> {
        (name == TTRPC_ADDRESS).then_some("/run/c.sock.ttrpc")
    }

    fn params() -> BootstrapParams {
        let options = Options { shim_cgroup: "/shims".into(), ..Options::default() };
        let other = Any { type_url: "containerd.io/other".into(), value: alloc::vec![1] };
        BootstrapParams {
            instance_id: "web".into(),
            namespace: "k8s.io".into(),
            log_level: log_level::TRACE,
            containerd_ttrpc_address: "/other.ttrpc".into(),
            containerd_grpc_address: "/other".into(),
            extensions: [None, Some(other), Some(Any::pack(&options))]
                .map(|value| Extension { value })
                .into(),
            socket_dir: Some("/run/s".into()),
            ..BootstrapParams::default()
        }
    }

    #[test]
    fn new_containerds() {
        let read = Params::read(&params().encode(), &flags(), env).unwrap();
        assert_eq!((read.language, read.debug), (Language::Protobuf, true));
        assert_eq!(read.ttrpc_address.as_deref(), Some("/other.ttrpc"));
        assert_eq!((&*read.grpc_address, read.socket_dir.as_deref()), ("/other", Some("/run/s")));
        assert_eq!(read.options.shim_cgroup, "/shims");
    }

    #[test]
    fn old_containerds() {
        let nothing = Params::read(&[], &flags(), env).unwrap();
        assert_eq!(nothing.language, Language::Address);
        assert_eq!(nothing.ttrpc_address.as_deref(), Some("/run/c.sock.ttrpc"));
        assert_eq!((&*nothing.grpc_address, nothing.socket_dir), ("/run/c.sock", None));
        // These options can also be decoded as BootstrapParams, and must not be.
        let options = Options { root: "/r".into(), ..Options::default() };
        let any = Any::pack(&options).encode();
        assert!(BootstrapParams::decode(&any).is_ok());
        let read = Params::read(&any, &flags(), env).unwrap();
        assert_eq!((read.language, &*read.options.root), (Language::Address, "/r"));
        assert!(Params::read(&[0xff], &flags(), env).is_err());
    }

    #[test]
    fn parameters_of_another_container_are_none() {
        let mut other = params();
        other.instance_id = "db".into();
        // Decoded as an Any, these parameters have an unknown type.
        let read = Params::read(&other.encode(), &flags(), |_| None);
        assert!(read.is_err() || read.is_ok_and(|read| read.language == Language::Address));
    }

    #[test]
    fn versions() {
        let language = |version| {
            Params::read(&[], &flags(), move |name| (name == MAX_VERSION).then_some(version))
        };
        for (version, wanted) in
            [("2", Language::Address), ("3", Language::Json), ("x", Language::Address)]
        {
            assert_eq!(language(version).unwrap().language, wanted, "{version}");
        }
    }

    #[test]
    fn answers() {
        assert_eq!(answer(Language::Address, "unix:///s"), b"unix:///s");
        let json = br#"{"version":3,"address":"unix:///s","protocol":"ttrpc"}"#;
        assert_eq!(answer(Language::Json, "unix:///s"), json);
        let result = BootstrapResult::decode(&answer(Language::Protobuf, "unix:///s")).unwrap();
        assert_eq!(
            (result.version, &*result.address, &*result.protocol),
            (3, "unix:///s", "ttrpc")
        );
        let any = result.extensions[0].value.as_ref().unwrap();
        assert_eq!(
            any.unpack::<MountCapabilities>().unwrap().unwrap().types.len(),
            MOUNT_TYPES.len()
        );
    }
}
