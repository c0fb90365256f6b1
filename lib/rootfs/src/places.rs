//! Default directories of stores and id ranges, which `dayfly` and `dayfly-image` share.

use alloc::format;
use alloc::string::String;

/// Returns the store's directory: the system's store for root of the host, or a directory in the caller's data
/// directory for any other user, including root of a user namespace. `variable` looks up an environment variable.
///
/// # Errors
/// A sentence for the user, if the environment variables do not determine a directory.
pub fn store<T: AsRef<str>>(variable: impl Fn(&str) -> Option<T>) -> Result<String, &'static str> {
    store_of(is_host_root(), variable)
}

fn store_of<T: AsRef<str>>(
    is_host_root: bool,
    variable: impl Fn(&str) -> Option<T>,
) -> Result<String, &'static str> {
    if is_host_root {
        return Ok(String::from("/var/lib/dayfly"));
    }
    // Relative paths are ignored (XDG base directory specification).
    let absolute = |name| variable(name).filter(|path: &T| path.as_ref().starts_with('/'));
    match (absolute("XDG_DATA_HOME"), absolute("HOME")) {
        (Some(data), _) => Ok(format!("{}/dayfly", data.as_ref())),
        (None, Some(home)) => Ok(format!("{}/.local/share/dayfly", home.as_ref())),
        (None, None) => {
            Err("no directory for a store: neither XDG_DATA_HOME nor HOME is set; use --store")
        }
    }
}

/// Returns the directory of the leases on id ranges.
pub fn leases<T: AsRef<str>>(variable: impl Fn(&str) -> Option<T>) -> String {
    leases_of(is_host_root(), variable)
}

fn leases_of<T: AsRef<str>>(is_host_root: bool, variable: impl Fn(&str) -> Option<T>) -> String {
    match variable("XDG_RUNTIME_DIR").filter(|path| !path.as_ref().is_empty()) {
        Some(runtime) if !is_host_root => format!("{}/dayfly-ids", runtime.as_ref()),
        _ => String::from("/run/dayfly-ids"),
    }
}

fn is_host_root() -> bool {
    rustix::process::geteuid().is_root() && !sys::user_namespace::is_nested()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<'a>(pairs: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<&'a str> {
        |name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| *value)
    }

    #[test]
    fn stores_of_root_and_users() {
        let home = [("HOME", "/home/me")];
        assert_eq!(store_of(true, of(&home)).as_deref(), Ok("/var/lib/dayfly"));
        assert_eq!(store_of(false, of(&home)).as_deref(), Ok("/home/me/.local/share/dayfly"));
        let data = [("HOME", "/home/me"), ("XDG_DATA_HOME", "/data")];
        assert_eq!(store_of(false, of(&data)).as_deref(), Ok("/data/dayfly"));
        let odd = [("HOME", "/home/me"), ("XDG_DATA_HOME", "data")];
        assert_eq!(store_of(false, of(&odd)).as_deref(), Ok("/home/me/.local/share/dayfly"));
        assert!(store_of(false, of(&[("HOME", "")])).is_err());
    }

    #[test]
    fn ranges_of_root_and_users() {
        let runtime = [("XDG_RUNTIME_DIR", "/run/user/7")];
        assert_eq!(leases_of(true, of(&runtime)), "/run/dayfly-ids");
        assert_eq!(leases_of(false, of(&runtime)), "/run/user/7/dayfly-ids");
        assert_eq!(leases_of(false, of(&[])), "/run/dayfly-ids");
    }
}
