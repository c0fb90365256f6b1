//! Options of `run --image` that few containers have, each checked here: the kernel's errors would not name the option.

use core::net::IpAddr;

use ::spec::resources::{self, DeviceRule};
use ::spec::{Device, DeviceKind, InRoot, NamespaceKind, Rlimit, Str, capability, rlimit};
use container::{STOP_SIGNAL, Settings};
use rustix::fs::{FileType, major, minor, stat};

use super::super::*;

/// Options with the namespace that their value `host` shares with the host.
const NAMESPACES: [(&Opt, NamespaceKind); 4] = [
    (&PID, NamespaceKind::Pid),
    (&IPC, NamespaceKind::Ipc),
    (&UTS, NamespaceKind::Uts),
    (&CGROUPNS, NamespaceKind::Cgroup),
];

pub fn settings<'a>(values: &Values<'a>) -> Result<Settings<'a>, Failure> {
    let mut settings = Settings {
        annotations: annotations(values)?,
        oom_score_adj: score(values)?,
        devices: each(values, &DEVICE, device)?,
        rlimits: each(values, &ULIMIT, limit)?,
        sysctls: each(values, &SYSCTL, |text| pair(text, '='))?,
        groups: each(values, &GROUP_ADD, |text| {
            number::parse(text).map_err(|_| "must be the number of a group".into())
        })?,
        hosts: each(values, &ADD_HOST, host)?.concat(),
        resolver: resolver(values)?,
        shm_size: values.text(&SHM_SIZE).map(bytes).transpose()?,
        profile_for: Some(::spec::defaults::seccomp::own),
        ..Settings::default()
    };
    for (option, kind) in NAMESPACES {
        match values.text(option) {
            None | Some("private") => {}
            Some("host") => settings.of_host.push(kind),
            Some(other) => {
                return Err(failure!("--{} {other}: must be host or private", option.long));
            }
        }
    }
    settings.dropped_capabilities = each(values, &CAP_DROP, capabilities)?.concat();
    settings.drops_all = values.texts(&CAP_DROP).any(|text| text.eq_ignore_ascii_case("ALL"));
    settings.added_capabilities = each(values, &CAP_ADD, capabilities)?.concat();
    for text in values.texts(&SECURITY_OPT) {
        match text.split_once([':', '=']).unwrap_or((text, "")) {
            ("no-new-privileges", "" | "true") => settings.no_new_privileges = true,
            ("seccomp", "unconfined") => settings.unfiltered = true,
            // Containers of images have no profile or label of these.
            ("apparmor", "unconfined") | ("label", "disable") => {}
            ("seccomp", _) => {
                return Err(failure!(
                    "--security-opt {text}: a profile is the image's: \"{NAME} image import --seccomp FILE\""
                ));
            }
            _ => {
                return Err(failure!(
                    "--security-opt {text}: must be no-new-privileges or seccomp=unconfined"
                ));
            }
        }
    }
    Ok(settings)
}

/// Returns what `read` makes of each value of an option.
pub fn each<'a, T>(
    values: &Values<'a>,
    option: &'static Opt,
    read: impl Fn(&'a str) -> Result<T, String>,
) -> Result<Vec<T>, Failure> {
    let of_option =
        |text| read(text).map_err(|reason| failure!("--{} {text}: {reason}", option.long));
    values.texts(option).map(of_option).collect()
}

fn pair(text: &str, separator: char) -> Result<(&str, &str), String> {
    let pair = text.split_once(separator).filter(|(name, _)| !name.is_empty());
    pair.ok_or_else(|| format!("must be NAME{separator}VALUE"))
}

/// Returns labels, which are annotations here, and the stop signal. A label without a value is empty.
fn annotations<'a>(values: &Values<'a>) -> Result<Vec<(&'a str, &'a str)>, Failure> {
    let mut all = each(values, &LABEL, |text| match text.contains('=') || text.is_empty() {
        true => pair(text, '='),
        false => Ok((text, "")),
    })?;
    all.extend(each(values, &ANNOTATION, |text| pair(text, '='))?);
    if let Some(text) = values.text(&STOP_WITH) {
        if signal::parse(text).is_none_or(|number| number == 0) {
            return Err(failure!("--stop-signal {text}: there is no such signal"));
        }
        all.push((STOP_SIGNAL, text));
    }
    Ok(all)
}

fn score(values: &Values<'_>) -> Result<Option<i32>, Failure> {
    let Some(number) = values.integer(&OOM_SCORE_ADJ) else { return Ok(None) };
    match i32::try_from(number) {
        Ok(score @ -1000..=1000) => Ok(Some(score)),
        _ => Err(failure!("--oom-score-adj {number}: must be from -1000 to 1000")),
    }
}

fn bytes(text: &str) -> Result<u64, Failure> {
    let size = size::parse(text).map_err(|error| failure!("--shm-size {text}: {error}"))?;
    u64::try_from(size).map_err(|_| failure!("--shm-size {text}: must not be less than 0"))
}

/// Returns the full names of a capability, with or without its prefix, or of all.
fn capabilities<'a>(text: &str) -> Result<Vec<Str<'a>>, String> {
    let name = text.to_ascii_uppercase();
    if name == "ALL" {
        return Ok(capability::known().map(Str::new).collect());
    }
    let bare = name.strip_prefix("CAP_").unwrap_or(&name);
    let known = capability::known().find(|known| known.strip_prefix("CAP_") == Some(bare));
    known.map(|known| Vec::from([Str::new(known)])).ok_or("there is no such capability".into())
}

/// Reads `HOST[:CONTAINER[:PERMISSIONS]]`, or `HOST:PERMISSIONS`.
fn device<'a>(text: &'a str) -> Result<(Device<'a>, DeviceRule), String> {
    let is_access = |word: &str| !word.is_empty() && word.bytes().all(|b| b"rwm".contains(&b));
    let words: Vec<&str> = text.split(':').collect();
    let (source, destination, access) = match words[..] {
        [source] => (source, source, "rwm"),
        [source, access] if is_access(access) => (source, source, access),
        [source, destination] => (source, destination, "rwm"),
        [source, destination, access] if is_access(access) => (source, destination, access),
        _ => return Err("must be HOST[:CONTAINER[:PERMISSIONS]], with permissions of rwm".into()),
    };
    if !source.starts_with('/') || !destination.starts_with('/') {
        return Err("both paths must be absolute".into());
    }
    let found = stat(source).map_err(|errno| sys::errno::describe(errno).to_string())?;
    let (kind, of_rule) = match FileType::from_raw_mode(found.st_mode) {
        FileType::CharacterDevice => (DeviceKind::Char, resources::DeviceKind::Char),
        FileType::BlockDevice => (DeviceKind::Block, resources::DeviceKind::Block),
        _ => return Err(format!("{source} is not a device")),
    };
    let (major, minor) = (i64::from(major(found.st_rdev)), i64::from(minor(found.st_rdev)));
    let device = Device {
        kind,
        path: InRoot::new(destination),
        major,
        minor,
        file_mode: Some(found.st_mode & 0o777),
        uid: Some(found.st_uid),
        gid: Some(found.st_gid),
    };
    let (major, minor) = (Some(major), Some(minor));
    Ok((device, DeviceRule { allow: true, kind: of_rule, major, minor, access: access.into() }))
}

/// Reads `NAME=SOFT[:HARD]`.
fn limit<'a>(text: &str) -> Result<Rlimit<'a>, String> {
    let (name, limits) = pair(text, '=')?;
    let kind = format!("RLIMIT_{}", name.to_ascii_uppercase());
    if rlimit::number(&kind).is_none() {
        return Err(format!("there is no limit {name}"));
    }
    let number = |text: &str| match text {
        "-1" | "unlimited" => Ok(u64::MAX),
        _ => number::parse::<u64>(text).map_err(|_| format!("{text:?} is not a number")),
    };
    let (soft, hard) = limits.split_once(':').unwrap_or((limits, limits));
    let (soft, hard) = (number(soft)?, number(hard)?);
    match soft > hard {
        true => Err("the soft limit is above the hard one".into()),
        false => Ok(Rlimit { kind: Str::from(kind), hard, soft }),
    }
}

/// Returns the line of /etc/hosts for `NAME:ADDRESS`; podman also takes several names, joined by `;`.
fn host(text: &str) -> Result<String, String> {
    let (names, address) = pair(text, if text.contains('=') { '=' } else { ':' })?;
    let address =
        address.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')).unwrap_or(address);
    let address: IpAddr = address.parse().map_err(|_| format!("{address:?} is not an address"))?;
    match names.contains(|c: char| c.is_whitespace() || c.is_control() || c == '#') {
        true => Err("a name has no spaces".into()),
        false => Ok(format!("{address}\t{}\n", names.replace(';', " "))),
    }
}

/// Returns the content of /etc/resolv.conf, if an option says what it has.
fn resolver(values: &Values<'_>) -> Result<Option<String>, Failure> {
    let mut text = String::new();
    for server in
        each(values, &DNS, |text| text.parse::<IpAddr>().map_err(|_| "is not an address".into()))?
    {
        let _ = writeln!(text, "nameserver {server}");
    }
    for (option, key) in [(&DNS_SEARCH, "search"), (&DNS_OPTION, "options")] {
        let words: Vec<&str> = values.texts(option).collect();
        if words.iter().any(|word| word.contains(char::is_control)) {
            return Err(failure!("--{}: must be one line", option.long));
        }
        if !words.is_empty() {
            let _ = writeln!(text, "{key} {}", words.join(" "));
        }
    }
    Ok(Some(text).filter(|text| !text.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_and_hosts() {
        let limit =
            |text| limit(text).map(|limit| (limit.kind.to_string(), limit.soft, limit.hard));
        assert_eq!(limit("nofile=1024:2048"), Ok(("RLIMIT_NOFILE".into(), 1024, 2048)));
        assert_eq!(limit("core=-1"), Ok(("RLIMIT_CORE".into(), u64::MAX, u64::MAX)));
        for text in ["nofile", "nofile=x", "nofile=2:1", "files=1"] {
            assert!(limit(text).is_err(), "{text}");
        }
        assert_eq!(host("db:10.0.0.1").as_deref(), Ok("10.0.0.1\tdb\n"));
        assert_eq!(host("db:::1").as_deref(), Ok("::1\tdb\n"));
        assert_eq!(host("a;b=[::1]").as_deref(), Ok("::1\ta b\n"));
        for text in ["db", "db:host-gateway", "a b:1.2.3.4", ":1.2.3.4"] {
            assert!(host(text).is_err(), "{text}");
        }
    }

    #[test]
    fn devices_and_capabilities() {
        let (made, rule) = device("/dev/null:/dev/other:r").unwrap();
        assert_eq!((&*made.path, made.major, made.minor), ("/dev/other", 1, 3));
        assert_eq!((rule.access.as_str(), rule.kind), ("r", resources::DeviceKind::Char));
        assert_eq!(device("/dev/null:rw").unwrap().1.access, "rw");
        for text in ["/dev/no-such", "/etc", "dev/null", "/dev/null:/x:y", "/dev/null:/x:r:w"] {
            assert!(device(text).is_err(), "{text}");
        }
        assert_eq!(capabilities("net_admin").unwrap(), ["CAP_NET_ADMIN"]);
        assert_eq!(capabilities("CAP_KILL").unwrap(), ["CAP_KILL"]);
        assert_eq!(capabilities("all").unwrap().len(), 41);
        assert!(capabilities("CAP_").is_err());
    }
}
