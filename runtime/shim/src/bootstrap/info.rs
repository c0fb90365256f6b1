//! `-info`: describes the shim and its features.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};

use proto::messages::any::Any;
use proto::messages::info::{RuntimeInfo, RuntimeVersion};
use proto::messages::specs::FEATURES;

use super::{Failure, REVISION, VERSION, options};
use crate::NAME;

/// The types of mounts that containerd's mount manager (2.2 and later) should leave to the shim. The list is empty, so
/// containerd performs mounts of types such as `erofs` and `loop` before it calls the shim. Types for which containerd
/// has no mount handler, such as `overlay` and `bind`, need not be listed.
pub const MOUNT_TYPES: &[&str] = &[];

/// The annotation that contains [`MOUNT_TYPES`] for containerd 2.2 and 2.3. Later versions read these types from the
/// answer to `start`.
const ALLOWED_MOUNTS: &str = "containerd.io/runtime-allow-mounts";

/// Returns the shim's description. `input` contains options, encoded as an Any, or is empty.
///
/// # Errors
/// If the options are invalid.
pub fn info(input: &[u8]) -> Result<RuntimeInfo, Failure> {
    let asked = match input {
        [] => None,
        input => Some(
            Any::decode(input)
                .map_err(|error| Failure::from(format!("standard input: no options: {error}")))?,
        ),
    };
    if let Some(any) = &asked {
        options::read(any)?;
    }
    let features = serde_json::to_vec(&container::features())
        .map_err(|error| Failure::from(error.to_string()))?;
    let mut annotations: BTreeMap<String, String> = BTreeMap::new();
    if !MOUNT_TYPES.is_empty() {
        annotations.insert(ALLOWED_MOUNTS.into(), MOUNT_TYPES.join(","));
    }
    Ok(RuntimeInfo {
        name: NAME.into(),
        version: Some(RuntimeVersion {
            version: VERSION.into(),
            revision: REVISION.unwrap_or_default().into(),
        }),
        options: asked,
        features: Some(Any { type_url: FEATURES.into(), value: features }),
        annotations,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::messages::options::Options;

    #[test]
    fn says_what_there_is() {
        let any = Any::pack(&Options { systemd_cgroup: true, ..Options::default() });
        let info = info(&any.encode()).unwrap();
        assert_eq!((&*info.name, &info.options), (NAME, &Some(any)));
        let features = info.features.unwrap();
        let json: serde_json::Value = serde_json::from_slice(&features.value).unwrap();
        assert_eq!(json["linux"]["mountExtensions"]["idmap"]["enabled"], true);
        assert_eq!(info.annotations.is_empty(), MOUNT_TYPES.is_empty());
    }

    #[test]
    fn asked_without_options_and_with_wrong_ones() {
        assert_eq!(info(&[]).unwrap().options, None);
        assert!(info(&[0xff]).is_err());
    }
}
