//! How many workers and servers a job shall have, as its control file says.

use serde::Deserialize;

use crate::error::hint;

/// The most workers, and the most servers.
pub(super) const MOST: usize = 64;

/// How many there shall be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// Workers.
    pub workers: usize,
    /// Servers.
    pub servers: usize,
}

/// An order as JSON; what is not said stays.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    workers: Option<usize>,
    servers: Option<usize>,
}

impl Order {
    /// An error in words unless both numbers may be.
    pub(super) fn checked(self) -> Result<Self, String> {
        for (name, number) in [("workers", self.workers), ("servers", self.servers)] {
            if !(1..=MOST).contains(&number) {
                return Err(format!("`{name}` is {number}; it may be from 1 to {MOST}"));
            }
        }
        Ok(self)
    }

    /// Reads `workers=3 servers=2` or the same as JSON; what is not said stays as it is here.
    pub fn read(self, text: &str) -> Result<Self, String> {
        let mut order = self;
        if text.trim_start().starts_with('{') {
            let written: Written = serde_json::from_str(text).map_err(|error| error.to_string())?;
            order.workers = written.workers.unwrap_or(order.workers);
            order.servers = written.servers.unwrap_or(order.servers);
            return order.checked();
        }
        let mut pairs = text.split([' ', '\t', '\r', '\n', ',']).filter(|pair| !pair.is_empty()).peekable();
        if pairs.peek().is_none() {
            return Err("it says nothing".to_owned());
        }
        for pair in pairs {
            let (name, number) = pair.split_once('=').ok_or_else(|| format!("`{pair}` is no NAME=NUMBER"))?;
            let number = number.parse().map_err(|_| format!("`{number}` is no number of {name}"))?;
            match name {
                "workers" => order.workers = number,
                "servers" => order.servers = number,
                other => {
                    let hint = hint(other, ["workers", "servers"].into_iter());
                    return Err(format!("`{other}` cannot be ordered; {hint}"));
                }
            }
        }
        order.checked()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_read_in_both_forms_and_what_is_not_said_stays() {
        let now = Order { workers: 2, servers: 1 };
        for (text, workers, servers) in [
            ("workers=3 servers=2\n", 3, 2),
            ("servers=4", 2, 4),
            ("workers=1,servers=1", 1, 1),
            ("{\"workers\": 5}", 5, 1),
            ("{\"workers\":3,\"servers\":2}\n", 3, 2),
        ] {
            assert_eq!(now.read(text).unwrap(), Order { workers, servers }, "{text}");
        }
        for (text, wanted) in [
            ("", "it says nothing"),
            ("3", "`3` is no NAME=NUMBER"),
            ("worker=3", "`worker` cannot be ordered; did you mean `workers`?"),
            ("workers=x", "`x` is no number of workers"),
            ("workers=0", "`workers` is 0; it may be from 1 to 64"),
            ("servers=65", "`servers` is 65; it may be from 1 to 64"),
            ("{\"server\":1}", "unknown field `server`"),
            ("{\"workers\":-1}", "invalid value"),
            ("{", "EOF"),
        ] {
            let told = now.read(text).unwrap_err();
            assert!(told.contains(wanted), "{text}: {told}");
        }
    }
}
