//! What is asked of systemd (org.freedesktop.systemd1(5)).

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;
use dbus::{Address, Bus, Call, Message, Value};

use crate::{Error, Instance, Property, Unit};

/// How long systemd may take for one call or one job.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where systemd itself listens, for root: D-Bus without a bus.
const PRIVATE: &str = "/run/systemd/private";

const SYSTEMD: &str = "org.freedesktop.systemd1";
const OBJECT: &str = "/org/freedesktop/systemd1";
const MANAGER: &str = "org.freedesktop.systemd1.Manager";

/// The interface of all objects' properties.
const PROPERTIES: &str = "org.freedesktop.DBus.Properties";
/// What calls are about that are about no unit.
const USER_INSTANCE: &str = "user instance";

/// systemd's answer to a job that did what it should.
const DONE: &str = "done";

/// A connection to systemd.
#[derive(Debug)]
pub struct Manager {
    bus: Bus,
}

impl Manager {
    /// Connects to the systemd that a unit belongs to.
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

    /// Makes a transient unit and waits until it is there. One of that name that failed is taken out of
    /// the way.
    ///
    /// # Errors
    /// [`Error::Call`]; [`Error::Job`] if it does not come up.
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

    /// Stops a unit and forgets that it may have failed. One that is not there is fine.
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

    /// Changes properties of a unit, until it ends.
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

    /// The cgroup of systemd itself.
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
                Err(failed(call, USER_INSTANCE, dbus::Error::Malformed("the cgroup is no text")))
            }
        }
    }

    /// systemd's version.
    ///
    /// # Errors
    /// [`Error::Call`]
    pub fn version(&mut self, unit: &Unit) -> Result<u32, Error> {
        let answer = self.property("Version");
        let answer = answer.map_err(|error| failed("Get Version", &unit.name, error))?;
        // Such as `252.39-1~deb12u1`, or `v257`.
        let text = answer.variant_text().unwrap_or_default().trim_start_matches('v');
        let digits = text.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
        digits.parse().map_err(|_| {
            failed("Get Version", &unit.name, dbus::Error::Malformed("the version is no number"))
        })
    }

    /// Calls for a job and waits for its result. systemd tells its end by a signal.
    fn job(
        &mut self,
        unit: &Unit,
        member: &str,
        arguments: Vec<Value>,
    ) -> Result<String, dbus::Error> {
        // A unit's name has no quotes.
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
        // Mostly there was nothing to reset.
        let _ = self.call(MANAGER, "ResetFailedUnit", [Value::text(&unit.name)].into());
    }

    /// A property of systemd itself.
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

/// The result of `job`, if the signal says that it is over: JobRemoved(id, job, unit, result).
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

/// Whether the answer is systemd's error of this name.
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
