-- Argo CD's health check for Messages. Argo CD loads only Lua's base and table libraries.
local health = { status = "Progressing", message = "No operator has looked at the Message yet." }

if obj.metadata.deletionTimestamp ~= nil then
  health.message = "The Message is being deleted."
  return health
end

local status = obj.status or {}
for _, condition in ipairs(status.conditions or {}) do
  if condition.type == "Ready" then
    if (condition.observedGeneration or 0) < (obj.metadata.generation or 0) then
      health.message = "The operator has not seen the latest edit yet."
      return health
    end
    if condition.status == "True" then
      health.status = "Healthy"
    elseif status.phase == "Failed" or condition.reason == "Unreadable" then
      health.status = "Degraded"
    end
    health.message = condition.message
    return health
  end
end
return health
