//! The options of a runtime in all their formats: runc's protobuf message, or TOML.
//!
//! The CRI passes runc's options only to runc's shim. All other shims get a `runtimeoptions.v1.Options`, which contains
//! the section `options` of containerd's configuration in TOML, or the path of a file in that format.

use alloc::format;
use alloc::string::String;

use proto::messages::any::Any;
use proto::messages::options::{Options, RuntimeOptions};

use super::Failure;
use super::toml::{self, Entry, Value};

/// Parses options. An Any of an unknown type is ignored.
///
/// # Errors
/// If the message does not match the type of the Any, or a value does not match its key's type.
pub fn read(any: &Any) -> Result<Options, Failure> {
    let malformed = |error| Failure::from(format!("options {}: {error}", any.type_url));
    if let Some(options) = any.unpack::<Options>().map_err(malformed)? {
        return Ok(options);
    }
    let Some(generic) = any.unpack::<RuntimeOptions>().map_err(malformed)? else {
        return Ok(Options::default());
    };
    let text = match generic.config_path.as_str() {
        "" => generic.config_body,
        path => toml::read_file("options", path)?,
    };
    match core::str::from_utf8(&text) {
        Ok(text) => of_text(text),
        Err(_) => Err("options: not UTF-8".into()),
    }
}

/// The field of a key, by the type of its value.
enum Field<'a> {
    Boolean(&'a mut bool),
    Number(&'a mut u32),
    Text(&'a mut String),
}

/// Parses `Key = value` lines: the part of TOML that options use. Keys are those of runc's options, as in containerd's
/// configuration (`SystemdCgroup`); unknown keys and tables are ignored.
fn of_text(text: &str) -> Result<Options, Failure> {
    let mut options = Options::default();
    for Entry { line, key, name, value } in toml::entries(text) {
        let field = match name.as_str() {
            "nopivotroot" => Field::Boolean(&mut options.no_pivot_root),
            "nonewkeyring" => Field::Boolean(&mut options.no_new_keyring),
            "systemdcgroup" => Field::Boolean(&mut options.systemd_cgroup),
            "iouid" => Field::Number(&mut options.io_uid),
            "iogid" => Field::Number(&mut options.io_gid),
            "shimcgroup" => Field::Text(&mut options.shim_cgroup),
            "binaryname" => Field::Text(&mut options.binary_name),
            "root" => Field::Text(&mut options.root),
            "criupath" => Field::Text(&mut options.criu_path),
            "criuimagepath" => Field::Text(&mut options.criu_image_path),
            "criuworkpath" => Field::Text(&mut options.criu_work_path),
            _ => continue,
        };
        match (field, value) {
            (Field::Boolean(field), Some(Value::Boolean(value))) => *field = value,
            (Field::Number(field), Some(Value::Number(value))) => *field = value,
            (Field::Text(field), Some(Value::Text(value))) => *field = value,
            _ => return Err(format!("options, line {line}: {key} has another type").into()),
        }
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    fn generic(body: &str) -> Any {
        Any::pack(&RuntimeOptions { config_body: body.as_bytes().into(), ..Default::default() })
    }

    #[test]
    fn of_runc() {
        let options = Options { systemd_cgroup: true, io_uid: 5, ..Options::default() };
        let mut any = Any::pack(&options);
        assert_eq!(read(&any).unwrap(), options);
        any.type_url = "type.googleapis.com/containerd.runc.v1.Options".into();
        assert_eq!(read(&any).unwrap(), options);
        any.value = alloc::vec![0x0a];
        assert!(read(&any).is_err());
        any.type_url = "containerd.linux.runc.RuncOptions".into();
        assert_eq!(read(&any).unwrap(), Options::default());
    }

    #[test]
    fn of_the_cri() {
        // This text has the format that go-toml 1 and 2 write.
        let body = "BinaryName = ''\nIoUid = 1_000\n  Root = \"/run/a\\\"b\" # here\nSystemdCgroup = true\n\
                    shim_cgroup='/x # y'\nUnknown = [1]\n# Root = 'z'\n\n[table]\nNoPivotRoot = true\n";
        let options = read(&generic(body)).unwrap();
        let wanted = Options {
            io_uid: 1000,
            root: "/run/a\"b".into(),
            systemd_cgroup: true,
            shim_cgroup: "/x # y".into(),
            ..Options::default()
        };
        assert_eq!(options, wanted);
    }

    #[test]
    fn values_of_another_type() {
        for body in [
            "SystemdCgroup = 1",
            "Root = true",
            "IoUid = '5'",
            "Root = \"x",
            "IoUid = -1",
            "Root =",
        ] {
            assert!(read(&generic(body)).is_err(), "{body}");
        }
    }

    #[test]
    fn of_a_file() {
        let any = |path: &str| {
            let path = path.to_string();
            Any::pack(&RuntimeOptions { config_path: path, ..RuntimeOptions::default() })
        };
        assert!(read(&any("/nonexistent")).is_err());
        assert!(read(&any("/dev/null")).is_err());
        let path = std::env::temp_dir().join(format!("dayfly-shim-options-{}", std::process::id()));
        std::fs::write(&path, "NoPivotRoot = true\n").unwrap();
        let read = read(&any(path.to_str().unwrap()));
        std::fs::remove_file(&path).unwrap();
        assert_eq!(
            read.map(|options| options.no_pivot_root).ok(),
            rustix::process::geteuid().is_root().then_some(true)
        );
    }
}
