//! The family of Hadar: gangs on mixed hardware by prices of GPUs. `policy` is Hadar itself.

mod calendar;
mod candidates;
mod claim;
mod desk;
mod dual;
mod isolated;
mod parameters;
mod policy;
mod prices;
mod reserved;
mod round;
mod stock;
mod targets;
mod utility;

pub(super) use policy::HADAR;
