//! A value that a scheduler's variable gets during a run.

use crate::DurationNs;
use std::fmt;
use std::str::FromStr;

/// A new value for a scheduler's variable, at a time of the run. Written `TIME:VARIABLE=VALUE`, as `2s:compute=1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimedSetting {
    /// When, since the run began.
    pub at: DurationNs,
    /// The variable.
    pub variable: String,
    /// The value as text.
    pub value: String,
}

/// When a scheduler's user space attaches it and takes it out again, since the run began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Presence {
    /// Before the run begins without.
    pub attach: Option<DurationNs>,
    /// At the end of the run without.
    pub detach: Option<DurationNs>,
}

/// A text that is no [`TimedSetting`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseTimedSettingError(String);

impl fmt::Display for ParseTimedSettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ParseTimedSettingError {}

impl FromStr for TimedSetting {
    type Err = ParseTimedSettingError;

    fn from_str(text: &str) -> Result<TimedSetting, ParseTimedSettingError> {
        let form = || ParseTimedSettingError("write TIME:VARIABLE=VALUE, as 2s:compute=1".to_string());
        let (at, setting) = text.split_once(':').ok_or_else(form)?;
        let (variable, value) = setting.split_once('=').ok_or_else(form)?;
        if variable.is_empty() || value.is_empty() {
            return Err(form());
        }
        let at = at.parse().map_err(|error| ParseTimedSettingError(format!("{error}")))?;
        Ok(TimedSetting { at, variable: variable.to_string(), value: value.to_string() })
    }
}

impl fmt::Display for TimedSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}={}", self.at, self.variable, self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timed_settings_round_trip() {
        for text in ["2s:compute=1", "500ms:weights[2]=9", "0ns:mode=a=b"] {
            assert_eq!(text.parse::<TimedSetting>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn other_texts_are_refused_with_the_form() {
        for text in ["", "compute=1", "2s:", "2s:compute", "2s:=1", "2s:compute="] {
            let error = text.parse::<TimedSetting>().unwrap_err().to_string();
            assert!(error.contains("TIME:VARIABLE=VALUE"), "{text}: {error}");
        }
        let error = "soon:compute=1".parse::<TimedSetting>().unwrap_err().to_string();
        assert!(error.contains("soon"), "{error}");
    }
}
