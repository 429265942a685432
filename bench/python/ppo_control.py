"""PPO on Gymnasium's environments as single-file implementations write it: one iteration per request.

The logic is that of CleanRL's ppo.py and ppo_continuous_action.py, with the same wrappers, networks and order of steps.
"""

import time

import gymnasium
import numpy
import torch
from serve import serve
from torch import nn
from torch.distributions import Categorical, Normal

learner = None


def layer(inputs, outputs, gain=2**0.5):
    linear = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(linear.weight, gain)
    nn.init.constant_(linear.bias, 0)
    return linear


def network(inputs, outputs, gain):
    return nn.Sequential(
        layer(inputs, 64), nn.Tanh(), layer(64, 64), nn.Tanh(), layer(64, outputs, gain)
    )


class Agent(nn.Module):
    def __init__(self, envs):
        super().__init__()
        inputs = int(numpy.prod(envs.single_observation_space.shape))
        space = envs.single_action_space
        self.is_discrete = isinstance(space, gymnasium.spaces.Discrete)
        outputs = int(space.n) if self.is_discrete else int(numpy.prod(space.shape))
        self.critic = network(inputs, 1, 1.0)
        self.actor = network(inputs, outputs, 0.01)
        if not self.is_discrete:
            self.log_std = nn.Parameter(torch.zeros(1, outputs))

    def value(self, observations):
        return self.critic(observations)

    def act(self, observations, actions=None):
        outputs = self.actor(observations)
        if self.is_discrete:
            chances = Categorical(logits=outputs)
            actions = chances.sample() if actions is None else actions
            return actions, chances.log_prob(actions), chances.entropy(), self.critic(observations)
        chances = Normal(outputs, torch.exp(self.log_std.expand_as(outputs)))
        actions = chances.sample() if actions is None else actions
        return actions, chances.log_prob(actions).sum(1), chances.entropy().sum(1), self.critic(observations)


def make(name, gamma, is_normalized):
    def create():
        env = gymnasium.make(name)
        if is_normalized:
            env = gymnasium.wrappers.FlattenObservation(env)
        env = gymnasium.wrappers.RecordEpisodeStatistics(env)
        if is_normalized:
            env = gymnasium.wrappers.ClipAction(env)
            env = gymnasium.wrappers.NormalizeObservation(env)
            env = gymnasium.wrappers.TransformObservation(env, lambda seen: numpy.clip(seen, -10, 10))
            env = gymnasium.wrappers.NormalizeReward(env, gamma=gamma)
            env = gymnasium.wrappers.TransformReward(env, lambda reward: numpy.clip(reward, -10, 10))
        return env

    return create


class Learner:
    def __init__(self, env, envs, ticks, epochs, minibatches, lr, entropy, normalized, gamma=0.99, lam=0.95, clip=0.2):
        torch.manual_seed(1)
        torch.set_num_threads(1)
        self.envs = gymnasium.vector.SyncVectorEnv([make(env, gamma, normalized) for _ in range(envs)])
        self.num_envs, self.ticks, self.epochs, self.minibatches = envs, ticks, epochs, minibatches
        self.entropy, self.gamma, self.lam, self.clip = entropy, gamma, lam, clip
        self.agent = Agent(self.envs)
        self.optimizer = torch.optim.Adam(self.agent.parameters(), lr=lr, eps=1e-5)
        observation, action = self.envs.single_observation_space.shape, self.envs.single_action_space.shape
        self.observations = torch.zeros((ticks, envs) + observation)
        self.actions = torch.zeros((ticks, envs) + action)
        self.logprobs, self.rewards, self.dones, self.values = (torch.zeros((ticks, envs)) for _ in range(4))
        self.next = torch.Tensor(self.envs.reset(seed=1)[0])
        self.next_done = torch.zeros(envs)

    def roll_out(self):
        for t in range(self.ticks):
            self.observations[t] = self.next
            self.dones[t] = self.next_done
            with torch.no_grad():
                action, logprob, _, value = self.agent.act(self.next)
                self.values[t] = value.flatten()
            self.actions[t] = action
            self.logprobs[t] = logprob
            observation, reward, terminated, truncated, _ = self.envs.step(action.numpy())
            self.rewards[t] = torch.tensor(reward).view(-1)
            self.next = torch.Tensor(observation)
            self.next_done = torch.Tensor(numpy.logical_or(terminated, truncated))

    def estimate(self):
        with torch.no_grad():
            next_value = self.agent.value(self.next).reshape(1, -1)
            advantages = torch.zeros_like(self.rewards)
            last = 0
            for t in reversed(range(self.ticks)):
                is_end = t == self.ticks - 1
                goes_on = 1.0 - (self.next_done if is_end else self.dones[t + 1])
                values = next_value if is_end else self.values[t + 1]
                delta = self.rewards[t] + self.gamma * values * goes_on - self.values[t]
                advantages[t] = last = delta + self.gamma * self.lam * goes_on * last
            return advantages, advantages + self.values

    def learn(self):
        advantages, returns = self.estimate()
        size = self.ticks * self.num_envs
        observations = self.observations.reshape((size,) + self.envs.single_observation_space.shape)
        actions = self.actions.reshape((size,) + self.envs.single_action_space.shape)
        logprobs, values = self.logprobs.reshape(-1), self.values.reshape(-1)
        advantages, returns = advantages.reshape(-1), returns.reshape(-1)
        indices = numpy.arange(size)
        clipped = []
        for _ in range(self.epochs):
            numpy.random.shuffle(indices)
            for start in range(0, size, size // self.minibatches):
                rows = indices[start : start + size // self.minibatches]
                chosen = actions[rows].long() if self.agent.is_discrete else actions[rows]
                _, logprob, entropy, value = self.agent.act(observations[rows], chosen)
                log_ratio = logprob - logprobs[rows]
                ratio = log_ratio.exp()
                with torch.no_grad():
                    ((ratio - 1) - log_ratio).mean()
                    clipped.append(((ratio - 1.0).abs() > self.clip).float().mean().item())
                advantage = advantages[rows]
                advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
                bounded = torch.clamp(ratio, 1 - self.clip, 1 + self.clip)
                policy_loss = torch.max(-advantage * ratio, -advantage * bounded).mean()
                value = value.view(-1)
                error = (value - returns[rows]) ** 2
                near = values[rows] + torch.clamp(value - values[rows], -self.clip, self.clip)
                value_loss = 0.5 * torch.max(error, (near - returns[rows]) ** 2).mean()
                loss = policy_loss - self.entropy * entropy.mean() + 0.5 * value_loss
                self.optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(self.agent.parameters(), 0.5)
                self.optimizer.step()


def timed(body):
    cpu, wall = time.process_time(), time.perf_counter()
    body()
    return {"wall": (time.perf_counter() - wall) * 1000, "cpu": (time.process_time() - cpu) * 1000}


def start(**settings):
    global learner
    learner = Learner(**settings)


def iterate():
    """A rollout and what is learned from it, each measured."""
    return {"rollout": timed(learner.roll_out), "train": timed(learner.learn)}


def step(count):
    """Steps of the environments alone, with actions drawn before."""
    actions = [learner.envs.action_space.sample() for _ in range(count)]
    return timed(lambda: [learner.envs.step(action) for action in actions])


serve(start=start, iterate=iterate, step=step)
