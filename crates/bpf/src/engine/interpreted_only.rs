//! In the place of the compiler on hosts that it does not know.

use super::{Host, NotCompiled, Vm};
use crate::code::{Code, FuncId};
use crate::fault::Fault;

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
}

/// What compiled code would keep of a run.
#[derive(Debug, Default)]
pub(super) struct Span;

/// Never called, since there is no `Native`.
pub(super) fn begin<H: Host>(
    _vm: &mut Vm<'_>,
    native: &Native,
    _func: FuncId,
    _args: [u64; 5],
    _host: &mut H,
) -> Result<u64, Fault> {
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
