//! Requests to systemd (org.freedesktop.systemd1(5)).

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use crate::systemd::dbus::{self, Address, Bus, Call, Message, Value};
use crate::systemd::{Error, Instance, Property, Unit};

/// The timeout of one call or one job.
const PATIENCE: Duration = Duration::from_secs(30);

/// The private socket on which systemd accepts peer-to-peer D-Bus from root.
const PRIVATE: &str = "/run/systemd/private";

const SYSTEMD: &str = "org.freedesktop.systemd1";
const OBJECT: &str = "/org/freedesktop/systemd1";
const MANAGER: &str = "org.freedesktop.systemd1.Manager";

/// The interface by which properties of any object are read.
const PROPERTIES: &str = "org.freedesktop.DBus.Properties";
/// The object that errors name if a call concerns the user's systemd itself instead of a unit.
const USER_INSTANCE: &str = "user instance";

/// The result of a successful job.
const DONE: &str = "done";

/// A connection to systemd.
#[derive(Debug)]
pub struct Manager {
    bus: Bus,
}

impl Manager {
    /// Connects to the systemd that manages a unit.
    ///
    /// # Errors
    /// [`Error::Call`]
    pub fn connect(unit: &Unit) -> Result<Self, Error> {
        Self::to(&unit.instance).map_err(|error| failed("connect", &unit.name, error))
    }

    /// Connects to a user's systemd.
    ///
    /// # Errors
    /// [`Error::Call`]
    pub fn of(instance: &Instance) -> Result<Self, Error> {
        Self::to(instance).map_err(|error| failed("connect", USER_INSTANCE, error))
    }

    fn to(instance: &Instance) -> Result<Self, dbus::Error> {
        let bus = match instance {
            Instance::System => match Bus::connect(&Address::system(), PATIENCE) {
                Err(error) if error.is_nobody() && rustix::process::geteuid().is_root() => {
                    Bus::peer(&Address::Path(PRIVATE.to_string()), PATIENCE)
                }
                result => result,
            },
            Instance::SystemAt(bus) | Instance::User { bus, .. } => {
                Bus::connect(&Address::parse(bus)?, PATIENCE)
            }
        };
        Ok(Self { bus: bus? })
    }

    /// Starts a transient unit, and waits until the job has finished. If a failed unit with the same name exists, its
    /// failed state is reset first.
    ///
    /// # Errors
    /// [`Error::Call`]; [`Error::Job`] if the unit fails to start.
    pub fn start(&mut self, unit: &Unit, properties: &[Property]) -> Result<(), Error> {
        let call = "StartTransientUnit";
        let mut retried = false;
        loop {
            let arguments = [
                Value::text(&unit.name),
                Value::text("replace"),
                list(properties),
                Value::Array("(sa(sv))".to_string(), Vec::new()),
            ];
            match self.job(unit, call, arguments.into()) {
                Ok(result) if result == DONE => return Ok(()),
                Ok(result) => {
                    self.reset(unit);
                    return Err(Error::Job { unit: unit.name.clone(), result });
                }
                Err(error) if is_answer(&error, "UnitExists") && !retried => {
                    self.reset(unit);
                    retried = true;
                }
                Err(error) => return Err(failed(call, &unit.name, error)),
            }
        }
    }

    /// Stops a unit and resets its failed state. It is not an error if the unit does not exist.
    ///
    /// # Errors
    /// [`Error::Call`]
    pub fn stop(&mut self, unit: &Unit) -> Result<(), Error> {
        let arguments = [Value::text(&unit.name), Value::text("replace")];
        match self.job(unit, "StopUnit", arguments.into()) {
            Ok(_) => {}
            Err(error) if is_answer(&error, "NoSuchUnit") => return Ok(()),
            Err(error) => return Err(failed("StopUnit", &unit.name, error)),
        }
        self.reset(unit);
        Ok(())
    }

    /// Changes properties of a unit; the changes last until the unit stops.
    ///
    /// # Errors
    /// [`Error::Call`]
    pub fn set(&mut self, unit: &Unit, properties: &[Property]) -> Result<(), Error> {
        let call = "SetUnitProperties";
        let arguments = [Value::text(&unit.name), Value::Bool(true), list(properties)];
        let result = self.call(MANAGER, call, arguments.into());
        result.map(drop).map_err(|error| failed(call, &unit.name, error))
    }

    /// Moves a process into the cgroup of a unit.
    ///
    /// # Errors
    /// [`Error::Call`]
    pub fn attach(&mut self, unit: &Unit, pid: u32) -> Result<(), Error> {
        let call = "AttachProcessesToUnit";
        let pids = Value::Array("u".to_string(), [Value::Uint32(pid)].into());
        let arguments = [Value::text(&unit.name), Value::text("/"), pids];
        let result = self.call(MANAGER, call, arguments.into());
        result.map(drop).map_err(|error| failed(call, &unit.name, error))
    }

    /// Returns the path of the instance's cgroup, below which systemd creates the cgroups of its units.
    ///
    /// # Errors
    /// [`Error::Call`]
    pub fn cgroup(&mut self) -> Result<String, Error> {
        let call = "Get ControlGroup";
        let answer = self.property("ControlGroup");
        let answer = answer.map_err(|error| failed(call, USER_INSTANCE, error))?;
        match answer.variant_text() {
            Some(path) => Ok(path.to_string()),
            None => {
                Err(failed(call, USER_INSTANCE, dbus::Error::Malformed("the cgroup is not text")))
            }
        }
    }

    /// Returns systemd's version.
    ///
    /// # Errors
    /// [`Error::Call`]
    pub fn version(&mut self, unit: &Unit) -> Result<u32, Error> {
        let answer = self.property("Version");
        let answer = answer.map_err(|error| failed("Get Version", &unit.name, error))?;
        // The version is a text such as `252.39-1~deb12u1` or `v257`.
        let text = answer.variant_text().unwrap_or_default().trim_start_matches('v');
        let digits = text.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
        digits.parse().map_err(|_| {
            failed("Get Version", &unit.name, dbus::Error::Malformed("the version is not a number"))
        })
    }

    /// Calls a method that queues a job, and waits for the JobRemoved signal with its result.
    fn job(
        &mut self,
        unit: &Unit,
        member: &str,
        arguments: Vec<Value>,
    ) -> Result<String, dbus::Error> {
        // Unit names contain no quotes.
        self.bus.subscribe(&format!(
            "type='signal',sender='{SYSTEMD}',path='{OBJECT}',interface='{MANAGER}',\
             member='JobRemoved',arg2='{}'",
            unit.name
        ))?;
        let answer = self.call(MANAGER, member, arguments)?;
        let job = answer.text().ok_or(dbus::Error::Malformed("no job in the answer"))?;
        self.bus.signal(|signal| removed(signal, job))
    }

    fn reset(&mut self, unit: &Unit) {
        // The call usually fails, because there is no failed unit to reset.
        let _ = self.call(MANAGER, "ResetFailedUnit", [Value::text(&unit.name)].into());
    }

    /// Reads a property of systemd itself.
    fn property(&mut self, name: &str) -> Result<Message, dbus::Error> {
        self.call(PROPERTIES, "Get", [Value::text(MANAGER), Value::text(name)].into())
    }

    fn call(
        &mut self,
        interface: &str,
        member: &str,
        arguments: Vec<Value>,
    ) -> Result<Message, dbus::Error> {
        self.bus.call(&Call { destination: SYSTEMD, path: OBJECT, interface, member, arguments })
    }
}

/// Returns the job's result if `signal`, a JobRemoved(id, job, unit, result), concerns `job`.
fn removed(signal: &Message, job: &str) -> Option<String> {
    if signal.interface != MANAGER || signal.member != "JobRemoved" || signal.signature != "uoss" {
        return None;
    }
    let mut body = signal.body();
    body.u32()?;
    let is_ours = body.string()? == job;
    body.string()?;
    let result = body.string()?;
    is_ours.then(|| result.to_string())
}

fn list(properties: &[Property]) -> Value {
    let pair = |property: &Property| {
        let value = Value::Variant(Box::new(property.value.clone()));
        Value::Struct([Value::text(&property.name), value].into())
    };
    Value::Array("(sv)".to_string(), properties.iter().map(pair).collect())
}

/// Returns whether an error is an error reply of systemd with this name.
fn is_answer(error: &dbus::Error, short: &str) -> bool {
    let name = error.answer().and_then(|name| name.strip_prefix("org.freedesktop.systemd1."));
    name == Some(short)
}

fn failed(call: &'static str, unit: &str, cause: dbus::Error) -> Error {
    Error::Call { call, unit: unit.to_string(), cause }
}

#[cfg(test)]
#[path = "manager_tests.rs"]
mod tests;
