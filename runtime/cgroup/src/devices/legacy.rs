//! Device rules in the form that the `devices` controller of cgroup v1 uses: a default, and exceptions to it.

use alloc::string::ToString;
use alloc::vec::Vec;
use rustix::fs::OFlags;
use spec::resources::DeviceKind;

use super::{Access, Rule};
use crate::Error;
use crate::directory::Directory;

/// The default for all devices, and the exceptions, whose `allow` is the opposite of the default.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Policy {
    pub allow: bool,
    pub exceptions: Vec<Rule>,
}

impl Policy {
    /// Converts an ordered list of rules to a default and exceptions.
    ///
    /// # Errors
    /// [`Error::DeviceHole`] if a rule removes part of a wildcard exception. The kernel would ignore such a rule, and
    /// the container would then have access that its configuration denies.
    pub fn new(rules: &[Rule]) -> Result<Self, Error> {
        let mut policy = Self { allow: false, exceptions: Vec::new() };
        for rule in rules {
            if rule.kind == DeviceKind::All {
                policy = Self { allow: rule.allow, exceptions: Vec::new() };
            } else if rule.allow == policy.allow {
                policy.remove(rule)?;
            } else {
                policy.add(rule);
            }
        }
        Ok(policy)
    }

    fn add(&mut self, rule: &Rule) {
        match self.exceptions.iter_mut().find(|exception| is_same_device(exception, rule)) {
            Some(exception) => exception.access = exception.access.union(rule.access),
            None => self.exceptions.push(*rule),
        }
    }

    fn remove(&mut self, rule: &Rule) -> Result<(), Error> {
        for exception in &mut self.exceptions {
            if rule.covers(exception) {
                exception.access = exception.access.difference(rule.access);
            } else if rule.meets(exception) {
                return Err(Error::DeviceHole {
                    rule: rule.to_string(),
                    wildcard: exception.to_string(),
                });
            }
        }
        self.exceptions.retain(|exception| !exception.access.is_empty());
        Ok(())
    }
}

fn is_same_device(a: &Rule, b: &Rule) -> bool {
    (a.kind, a.major, a.minor) == (b.kind, b.major, b.minor)
}

/// Replaces the device rules of a cgroup: first writes the default, which removes all exceptions, then writes the
/// exceptions.
///
/// # Errors
/// [`Error::DeviceHole`]; failing writes, for example EPERM if the rules allow an access that the
/// parent cgroup denies, or EINVAL if the cgroup already has child cgroups.
pub(crate) fn apply(directory: &Directory, rules: &[Rule]) -> Result<(), Error> {
    let policy = Policy::new(rules)?;
    let file = |allow| if allow { "devices.allow" } else { "devices.deny" };
    let everything = Rule {
        allow: policy.allow,
        kind: DeviceKind::All,
        major: None,
        minor: None,
        access: Access::ALL,
    };
    directory.write(file(policy.allow), everything)?;
    if policy.exceptions.is_empty() {
        return Ok(());
    }
    let file = directory.file(file(!policy.allow), OFlags::WRONLY)?;
    for exception in &policy.exceptions {
        file.write(exception)?;
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns the default and the exceptions that are equivalent to `rules`.
    pub(crate) fn policy_of(rules: &[Rule]) -> Result<(bool, Vec<Rule>), Error> {
        Policy::new(rules).map(|policy| (policy.allow, policy.exceptions))
    }

    fn rule(text: &str) -> Rule {
        let mut words = text.split(' ');
        let allow = words.next() == Some("allow");
        let kind = match words.next() {
            Some("a") => DeviceKind::All,
            Some("b") => DeviceKind::Block,
            _ => DeviceKind::Char,
        };
        let (major, minor) = words.next().unwrap().split_once(':').unwrap();
        let access = Access::from_letters(words.next().unwrap()).unwrap();
        Rule { allow, kind, major: major.parse().ok(), minor: minor.parse().ok(), access }
    }

    fn policy(rules: &[&str]) -> Result<(bool, Vec<String>), Error> {
        let rules: Vec<_> = rules.iter().copied().map(rule).collect();
        let policy = Policy::new(&rules)?;
        Ok((policy.allow, policy.exceptions.iter().map(ToString::to_string).collect()))
    }

    #[test]
    fn a_list_of_allowed_devices() {
        let rules = ["deny a *:* rwm", "allow c 1:3 r", "allow c 1:3 w", "allow c *:* m"];
        assert_eq!(policy(&rules).unwrap(), (false, vec!["c 1:3 rw".into(), "c *:* m".into()]));
        let rules = ["allow c 1:3 rwm", "deny c 1:3 w", "allow b 8:0 r", "deny b 8:0 r"];
        assert_eq!(policy(&rules).unwrap(), (false, vec!["c 1:3 rm".into()]));
    }

    #[test]
    fn a_list_of_refused_devices() {
        let rules = ["allow c 1:3 rwm", "allow a *:* rwm", "deny b 8:* w"];
        assert_eq!(policy(&rules).unwrap(), (true, vec!["b 8:* w".into()]));
    }

    #[test]
    fn a_wildcard_takes_single_devices_back() {
        let rules = ["allow c 1:3 rwm", "allow c 1:5 rwm", "allow c 5:0 r", "deny c 1:* w"];
        let left = vec!["c 1:3 rm".into(), "c 1:5 rm".into(), "c 5:0 r".into()];
        assert_eq!(policy(&rules).unwrap(), (false, left));
    }

    #[test]
    fn holes_in_wildcards_are_errors() {
        let error = policy(&["allow c *:* rwm", "deny c 1:3 w"]).unwrap_err();
        assert!(matches!(error, Error::DeviceHole { .. }), "{error}");
        assert!(policy(&["allow c *:* m", "deny c 1:3 w"]).is_ok());
        assert!(policy(&["allow a *:* rwm", "deny c 1:* w", "allow c 1:3 w"]).is_err());
    }
}
