//! The options of a runtime in all their formats: runc's protobuf message, or TOML.
//!
//! The CRI passes runc's options only to runc's shim. All other shims get a `runtimeoptions.v1.Options`, which contains
//! the section `options` of containerd's configuration in TOML, or the path of a file in that format.

use alloc::format;
use alloc::string::{String, ToString};

use proto::messages::any::Any;
use proto::messages::options::{Options, RuntimeOptions};
use rustix::fs::CWD;
use sys::fs::{Owned, read_owned_at};

use super::Failure;

/// Maximum bytes of a file with options.
const LONGEST: usize = 1 << 20;

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
        path => match read_owned_at(CWD, path, |owner| owner == 0, LONGEST) {
            Ok(Owned::Read(bytes)) => bytes,
            Ok(Owned::Foreign(owner)) => {
                return Err(format!("options {path}: belongs to user {owner}, not to root").into());
            }
            Ok(Owned::Special) => return Err(format!("options {path}: no ordinary file").into()),
            Err(errno) => return Err(sys::Error::new("read options", path, errno).into()),
        },
    };
    match core::str::from_utf8(&text) {
        Ok(text) => of_text(text),
        Err(_) => Err("options: not UTF-8".into()),
    }
}

/// A TOML value.
#[derive(Debug, PartialEq, Eq)]
enum Value {
    Boolean(bool),
    Number(u32),
    Text(String),
}

/// Parses lines of the form `Key = value`, the only part of TOML that options use. The keys are the names of runc's
/// options, as in containerd's configuration (`SystemdCgroup`). Unknown keys and tables are ignored.
fn of_text(text: &str) -> Result<Options, Failure> {
    let mut options = Options::default();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.starts_with('[') {
            break;
        }
        let Some((key, rest)) = line.split_once('=').filter(|_| !line.starts_with('#')) else {
            continue;
        };
        let key = key.trim().trim_matches(['"', '\'']);
        let name: String =
            key.chars().filter(|c| *c != '_').map(|c| c.to_ascii_lowercase()).collect();
        let is_set = match value(rest.trim()) {
            Some(Value::Boolean(value)) => boolean(&mut options, &name).map(|slot| *slot = value),
            Some(Value::Number(value)) => number(&mut options, &name).map(|slot| *slot = value),
            Some(Value::Text(value)) => string(&mut options, &name).map(|slot| *slot = value),
            None => None,
        };
        let is_known = boolean(&mut options, &name).is_some()
            || number(&mut options, &name).is_some()
            || string(&mut options, &name).is_some();
        if is_set.is_none() && is_known {
            return Err(format!("options, line {}: {key} has another type", at + 1).into());
        }
    }
    Ok(options)
}

fn boolean<'a>(options: &'a mut Options, name: &str) -> Option<&'a mut bool> {
    Some(match name {
        "nopivotroot" => &mut options.no_pivot_root,
        "nonewkeyring" => &mut options.no_new_keyring,
        "systemdcgroup" => &mut options.systemd_cgroup,
        _ => return None,
    })
}

fn number<'a>(options: &'a mut Options, name: &str) -> Option<&'a mut u32> {
    Some(match name {
        "iouid" => &mut options.io_uid,
        "iogid" => &mut options.io_gid,
        _ => return None,
    })
}

fn string<'a>(options: &'a mut Options, name: &str) -> Option<&'a mut String> {
    Some(match name {
        "shimcgroup" => &mut options.shim_cgroup,
        "binaryname" => &mut options.binary_name,
        "root" => &mut options.root,
        "criupath" => &mut options.criu_path,
        "criuimagepath" => &mut options.criu_image_path,
        "criuworkpath" => &mut options.criu_work_path,
        _ => return None,
    })
}

/// Parses a value, which a comment may follow. Returns `None` for types that options do not use, such as arrays and
/// dates.
fn value(text: &str) -> Option<Value> {
    let (value, rest) = match text.as_bytes().first()? {
        b'\'' => {
            let (value, rest) = text.get(1..)?.split_once('\'')?;
            (Value::Text(value.to_string()), rest)
        }
        b'"' => {
            let (value, rest) = quoted(text.get(1..)?)?;
            (Value::Text(value), rest)
        }
        _ => {
            let end = text.find(['#', ' ', '\t']).unwrap_or(text.len());
            let (word, rest) = text.split_at_checked(end)?;
            let value = match word {
                "true" => Value::Boolean(true),
                "false" => Value::Boolean(false),
                _ => Value::Number(word.replace('_', "").parse().ok()?),
            };
            (value, rest)
        }
    };
    let rest = rest.trim_start();
    (rest.is_empty() || rest.starts_with('#')).then_some(value)
}

/// Returns a string up to its closing quote, and the text after that quote.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    loop {
        match characters.next()? {
            (end, '"') => return Some((value, text.get(end + 1..)?)),
            (_, '\\') => value.push(match characters.next()?.1 {
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                same @ ('"' | '\\') => same,
                _ => return None,
            }),
            (_, character) => value.push(character),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generic(body: &str) -> Any {
        Any::pack(&RuntimeOptions { config_body: body.as_bytes().into(), ..Default::default() })
    }

    #[test]
    fn of_runc() {
        let options = Options { systemd_cgroup: true, io_uid: 5, ..Options::default() };
        let mut any = Any::pack(&options);
        assert_eq!(read(&any), Ok(options.clone()));
        any.type_url = "type.googleapis.com/containerd.runc.v1.Options".into();
        assert_eq!(read(&any), Ok(options));
        any.value = alloc::vec![0x0a];
        assert!(read(&any).is_err());
        any.type_url = "containerd.linux.runc.RuncOptions".into();
        assert_eq!(read(&any), Ok(Options::default()));
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
