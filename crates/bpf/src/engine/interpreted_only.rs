//! In the place of the compiler on hosts that it does not know.

use super::{Done, Frames, Host, NotCompiled, Vm};
use crate::code::{Code, FuncId};
use crate::fault::Fault;
use crate::memory::Memory;

/// No image is ever machine code here.
#[derive(Debug)]
pub(crate) enum Native {}

impl Native {
    /// Nothing: the interpreter runs everything.
    ///
    /// # Errors
    /// Always.
    pub(crate) fn compile(_code: &Code) -> Result<Native, NotCompiled> {
        Err(NotCompiled::OtherHost)
    }

    /// Never called, since there is none.
    pub(crate) fn follows(&self, _mem: &Memory) -> bool {
        match *self {}
    }
}

/// What compiled code would keep of a run.
#[derive(Debug, Default)]
pub(super) struct Span;

/// Never called, since there is no `Native`.
#[allow(clippy::too_many_arguments, reason = "as the compiler's")]
pub(super) fn run<H: Host>(
    _code: &Code,
    native: &Native,
    _func: FuncId,
    _args: [u64; 5],
    _mem: &mut Memory,
    _frames: &mut Frames,
    _host: &mut H,
    _budget: u64,
) -> Result<Done, Fault> {
    match *native {}
}

/// Never called either.
#[allow(clippy::too_many_arguments, reason = "as the compiler's")]
pub(super) fn run_first<H: Host>(
    _code: &Code,
    native: &Native,
    _func: FuncId,
    _args: [u64; 5],
    _mem: &mut Memory,
    _frames: &mut Frames,
    _host: &mut H,
    _budget: u64,
) -> Result<Done, Fault> {
    match *native {}
}

/// Never called either.
pub(super) fn nested<H: Host>(
    _vm: &mut Vm<'_>,
    native: &Native,
    _func: FuncId,
    _args: [u64; 5],
    _host: &mut H,
) -> Result<u64, Fault> {
    match *native {}
}
