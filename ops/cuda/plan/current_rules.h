// The rules that choices follow now: of each device the shipped ones, until others are loaded or a
// way is measured. They may change at any time and by any thread; no change moves a bit.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cuda/plan/rules.h"

namespace tiled {

std::shared_ptr<const Rules> current_rules(const DeviceInfo& device);

// Counts the changes, from 1 on: what was chosen under an older version may be another way now.
int64_t rules_version();

// Keeps the way that was measured to be the fastest for a class of problems (measured.h).
void keep_measured(const DeviceInfo& device, const std::string& problem_class,
                   const MeasuredWay& way);

// Forgets what was loaded and measured, of all devices.
void forget_rules();

// The text of a rules file: its head, which names the device and the table of ways, the rates if
// they are not the shipped ones, and the rows. A text ends with a line that counts its lines, so
// that one that was cut off is found out.
std::string rules_file(const DeviceInfo& device, const Rules& rules);

// Why the text cannot be used on any of these devices: it is damaged, of another version, or of
// another device; empty if it can, and then `device` is the one and `rules` holds what it says.
std::string read_rules_file(const std::string& text, const std::vector<DeviceInfo>& devices,
                            DeviceInfo& device, Rules& rules);

// Puts what a file said before what is known: its rates replace those, its rows are added.
void use_rules(const DeviceInfo& device, const Rules& rules);

}  // namespace tiled
