//! The program as its users meet it: arguments in, output and exit codes out.

#[cfg(test)]
mod examine;
#[cfg(test)]
mod sim;
#[cfg(test)]
mod status;
#[cfg(test)]
mod tune;
